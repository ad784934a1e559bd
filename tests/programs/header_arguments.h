/* header_arguments.h: what header_layers.h calls with -> the arguments and weights of an emitted header's functions,
 * P##_args_of and P##_weights_of. Included once for each prefix, with P and PU (the same in capitals) defined. */
#define CALLS_GLUE_(a, b) a##b
#define CALLS_GLUE(a, b) CALLS_GLUE_(a, b)
#define CALLS_P(name) CALLS_GLUE(P, name)
#define CALLS_PU(name) CALLS_GLUE(PU, name)

static CALLS_P(_args) CALLS_P(_args_of)(const call *c, size_t scratch_bytes) {
    CALLS_P(_args) args;
    args.n = c->n;
    args.x = c->x;
    args.ldx = c->ldx;
    args.y = c->y;
    args.ldy = c->ldy;
    args.packed = c->packed;
    args.scratch = c->scratch;
    args.scratch_bytes = scratch_bytes;
    return args;
}

static CALLS_P(_weights)
    CALLS_P(_weights_of)(const float *up, const float *gate, const float *down, const float *const biases[3]) {
    CALLS_P(_weights) weights;
    memset(&weights, 0, sizeof weights);
    weights.up.data = up;
    weights.gate.data = gate;
    weights.down.data = down;
    weights.bias_up = biases[0];
    weights.bias_gate = biases[1];
    weights.bias_down = biases[2];
    return weights;
}
