/* cmd_bench_activations.h: ffngen bench --activations: every activation, accurate and fast -> what it costs alone */
#ifndef CMD_BENCH_ACTIVATIONS_H
#define CMD_BENCH_ACTIVATIONS_H

#include "cmd.h"

/* By the `act` entry of an image each, in turns, for at least so many seconds. An exit status. */
int bench_activations(const cmd *command, ffn_isa isa, double seconds, bool json);

/* Operations a vector of a spec's activation; 0 without memory. */
int bench_operations(const ffn_spec *spec);

#endif
