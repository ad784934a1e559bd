/* cmd_weights.h: where weights are in a safetensors file -> rows of an option table
 *
 * `names` is a weights_options, `choice` an int that is -1 where no layout was given. */
#ifndef CMD_WEIGHTS_H
#define CMD_WEIGHTS_H

#include "options.h"
#include "weights.h"

static const char *const cmd_layouts[] = {"in_out", "out_in", NULL};

#define CMD_WEIGHTS_ROWS(names, choice)                                                                               \
    {"map", 0, OPTION_TEXT, &(names).map, "w1=NAME,...", "tensor names: w1, b1, w2, b2 (up, gate, down, ...)", NULL}, \
        {"layout", 0, OPTION_CHOICE, &(choice), "in_out|out_in", "how every matrix is stored", cmd_layouts},          \
        {"layer", 0, OPTION_INDEX, &(names).layer, "N", "the layer to take (default 0)", NULL}, {                     \
        "expert", 0, OPTION_INDEX, &(names).expert, "N", "the expert to take (default 0)", NULL                       \
    }

static inline const char *cmd_layout_name(int choice) {
    return choice >= 0 ? cmd_layouts[choice] : NULL;
}

#endif
