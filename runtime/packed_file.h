/* packed_file.h: packed weights that need not be f32 in memory -> a file */
#ifndef FFN_PACKED_FILE_H
#define FFN_PACKED_FILE_H

#include "pack.h"

/* ffn_pack_file for weights some of which are read as they are packed; *header (NULL is allowed) becomes the file's. */
ffn_status packed_file_write(const ffn_spec *spec, const pack_weights *weights, const char *path, packed_header *header,
                             ffn_diag *diag);

#endif
