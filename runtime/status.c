/* status.c: ffn_status -> a constant sentence, from the one list in ffn.h */
#include "ffn.h"

const char *ffn_status_text(ffn_status status) {
    switch (status) {
#define STATUS_CASE(name, text) \
    case FFN_##name:            \
        return text;
        FFN_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}
