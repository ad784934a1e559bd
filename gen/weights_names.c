/* weights_names.c: the table of names, and patterns <-> names
 *
 * Linear layers of PyTorch store [out, in]; GPT-2's Conv1D stores [in, out]. "gate" is the product that goes through
 * the activation, "up" the one that is multiplied by it, whatever a model calls them. */
#include "weights_names.h"

#include <stdio.h>
#include <string.h>

#define PLAIN(lie, order, up, down)                                        \
    lie, order, {                                                          \
        up ".weight", NULL, down ".weight", up ".bias", NULL, down ".bias" \
    }

#define LINEAR(family, up, down) \
    { family, PLAIN(WEIGHT_OUT_IN, FFN_GATE_SEPARATE, up, down) }
#define CONV1D(family, up, down) \
    { family, PLAIN(WEIGHT_IN_OUT, FFN_GATE_SEPARATE, up, down) }
#define FUSED(family, gate_up, down) \
    { family, PLAIN(WEIGHT_OUT_IN, FFN_GATE_FIRST, gate_up, down) }
#define GATED(family, gate, up, down)                                                            \
    {                                                                                            \
        family, WEIGHT_OUT_IN, FFN_GATE_SEPARATE, {                                              \
            up ".weight", gate ".weight", down ".weight", up ".bias", gate ".bias", down ".bias" \
        }                                                                                        \
    }

static const weight_row rows[] = {
    {"plain", WEIGHT_UNSAID, FFN_GATE_SEPARATE, {"w1", "wg", "w2", "b1", "bg", "b2"}},
    {"plain", WEIGHT_UNSAID, FFN_GATE_SEPARATE, {"up", "gate", "down", "bias_up", "bias_gate", "bias_down"}},
    {"plain", WEIGHT_UNSAID, FFN_GATE_FIRST, {"gate_up", NULL, "down", "bias_gate_up", NULL, "bias_down"}},

    LINEAR("bert, roberta, vit", "encoder.layer.#.intermediate.dense", "encoder.layer.#.output.dense"),
    LINEAR("distilbert", "transformer.layer.#.ffn.lin1", "transformer.layer.#.ffn.lin2"),
    CONV1D("gpt2", "h.#.mlp.c_fc", "h.#.mlp.c_proj"),
    LINEAR("gpt-j", "h.#.mlp.fc_in", "h.#.mlp.fc_out"),
    LINEAR("bloom, falcon", "h.#.mlp.dense_h_to_4h", "h.#.mlp.dense_4h_to_h"),
    LINEAR("gpt-neox", "layers.#.mlp.dense_h_to_4h", "layers.#.mlp.dense_4h_to_h"),
    LINEAR("t5 encoder", "block.#.layer.1.DenseReluDense.wi", "block.#.layer.1.DenseReluDense.wo"),
    LINEAR("t5 decoder", "block.#.layer.2.DenseReluDense.wi", "block.#.layer.2.DenseReluDense.wo"),
    LINEAR("phi, clip, siglip", "layers.#.mlp.fc1", "layers.#.mlp.fc2"),
    LINEAR("whisper, bart, opt", "layers.#.fc1", "layers.#.fc2"),
    LINEAR("vit of timm", "blocks.#.mlp.fc1", "blocks.#.mlp.fc2"),
    LINEAR("starcoder2", "layers.#.mlp.c_fc", "layers.#.mlp.c_proj"),
    LINEAR("torch.nn.Transformer", "layers.#.linear1", "layers.#.linear2"),

    GATED("t5-v1_1 encoder", "block.#.layer.1.DenseReluDense.wi_0", "block.#.layer.1.DenseReluDense.wi_1",
          "block.#.layer.1.DenseReluDense.wo"),
    GATED("t5-v1_1 decoder", "block.#.layer.2.DenseReluDense.wi_0", "block.#.layer.2.DenseReluDense.wi_1",
          "block.#.layer.2.DenseReluDense.wo"),
    GATED("llama, mistral, qwen2, gemma", "layers.#.mlp.gate_proj", "layers.#.mlp.up_proj", "layers.#.mlp.down_proj"),
    GATED("llama as first published", "layers.#.feed_forward.w1", "layers.#.feed_forward.w3",
          "layers.#.feed_forward.w2"),
    GATED("mixtral", "layers.#.block_sparse_moe.experts.@.w1", "layers.#.block_sparse_moe.experts.@.w3",
          "layers.#.block_sparse_moe.experts.@.w2"),
    GATED("deepseek, qwen-moe", "layers.#.mlp.experts.@.gate_proj", "layers.#.mlp.experts.@.up_proj",
          "layers.#.mlp.experts.@.down_proj"),

    FUSED("phi-3", "layers.#.mlp.gate_up_proj", "layers.#.mlp.down_proj"),
    FUSED("modernbert", "layers.#.mlp.Wi", "layers.#.mlp.Wo"),
};

const weight_row *weights_names_row(size_t i) {
    return i < sizeof rows / sizeof *rows ? &rows[i] : NULL;
}

/* Digits without leading zeros; NULL if there are none, else where they end. */
static const char *number_match(const char *name, int64_t *number) {
    const char *c = name;
    for (*number = 0; *c >= '0' && *c <= '9' && *number < INT32_MAX; c++)
        *number = *number * 10 + (*c - '0');
    return c == name || (*name == '0' && c > name + 1) ? NULL : c;
}

static bool whole_match(const char *pattern, const char *name, int64_t *layer, int64_t *expert) {
    *layer = *expert = WEIGHT_ANY;
    for (; *pattern; pattern++) {
        if (*pattern == '#' || *pattern == '@') {
            name = number_match(name, *pattern == '#' ? layer : expert);
            if (!name)
                return false;
        } else if (*pattern != *name++) {
            return false;
        }
    }
    return *name == '\0';
}

int64_t weights_names_match(const char *pattern, const char *name, int64_t *layer, int64_t *expert) {
    for (const char *start = name;; start++) {
        if (whole_match(pattern, start, layer, expert))
            return start - name;
        start = strchr(start, '.');
        if (!start)
            return -1;
    }
}

bool weights_names_write(const char *prefix, size_t prefix_bytes, const char *pattern, int64_t layer, int64_t expert,
                         char *name, size_t name_bytes) {
    if (prefix_bytes >= name_bytes)
        return false;
    memcpy(name, prefix, prefix_bytes);
    size_t used = prefix_bytes;
    for (; *pattern; pattern++) {
        int length = *pattern == '#'   ? snprintf(name + used, name_bytes - used, "%lld", (long long)layer)
                     : *pattern == '@' ? snprintf(name + used, name_bytes - used, "%lld", (long long)expert)
                                       : snprintf(name + used, name_bytes - used, "%c", *pattern);
        if (length < 0 || (size_t)length >= name_bytes - used)
            return false;
        used += (size_t)length;
    }
    name[used] = '\0';
    return true;
}
