/* weights_stream.h: a matrix in a safetensors file -> its elements as they are packed, without all of it in memory */
#ifndef FFN_WEIGHTS_STREAM_H
#define FFN_WEIGHTS_STREAM_H

#include "pack.h"
#include "safetensors.h"

typedef struct weights_stream { /* set file and tensor, zero the rest */
    const safetensors *file;
    const safetensors_tensor *tensor;      /* of rank 2 and a type that safetensors_read takes */
    const unsigned char *touched, *behind; /* what was read since pages were last released */
} weights_stream;

/* Valid as long as the stream stays where it is. */
pack_reader weights_stream_reader(weights_stream *stream);

#endif
