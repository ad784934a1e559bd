/* weights_stream.c: rectangles of a tensor as f32; what lies behind them leaves memory after WINDOW_BYTES
 *
 * Reading a mapped file leaves its pages in memory, so that at the end all of it would be there. Invariant: of one
 * tensor about WINDOW_BYTES are, or the one rectangle read last where that is spread wider. */
#include "weights_stream.h"

enum { WINDOW_BYTES = 1 << 20 };

static void stream_touch(weights_stream *stream, const unsigned char *begin, const unsigned char *end) {
    const bool none = stream->touched == NULL;
    stream->touched = none || begin < stream->touched ? begin : stream->touched;
    stream->behind = none || end > stream->behind ? end : stream->behind;
    if (stream->behind - stream->touched > WINDOW_BYTES) {
        safetensors_release(stream->file, stream->touched, stream->behind);
        stream->touched = stream->behind = NULL;
    }
}

static void stream_read(void *self, int64_t row, int64_t rows, int64_t column, int64_t columns, float *to) {
    weights_stream *stream = self;
    const safetensors_tensor *tensor = stream->tensor;
    const int64_t width = tensor->shape[1], first = row * width + column, last = first + (rows - 1) * width + columns;
    const int64_t element_bytes = safetensors_dtype_bits(tensor->dtype) / 8;
    for (int64_t r = 0; r < rows; r++)
        safetensors_read(tensor, first + r * width, columns, to + r * columns);
    const unsigned char *data = tensor->data;
    stream_touch(stream, data + first * element_bytes, data + last * element_bytes);
}

pack_reader weights_stream_reader(weights_stream *stream) {
    return (pack_reader){stream_read, stream};
}
