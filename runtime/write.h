/* write.h: bytes -> a file, all of them; what the system refuses is an error number, never a signal */
#ifndef FFN_WRITE_H
#define FFN_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WRITE_HERE (-1) /* where the descriptor stands, or at the end if it appends */

/* True once all of it is written, at the offset `at` or WRITE_HERE; else errno tells why not. */
bool write_all(int file, const void *data, size_t bytes, int64_t at);

#endif
