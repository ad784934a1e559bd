/* cmd_bench_spec.c: the layer, the rows of x, the oracle and the peers' weights, made once and used for every n */
#include "cmd_bench_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X_SEED 7

static int run_rows(const bench_sweep *sweep, bench_layer *layer, const float *x, const bench_oracle *oracle) {
    int status = CMD_OK;
    for (int i = 0; i < sweep->n_count && status != CMD_USAGE && !ferror(stdout); i++) {
        bench_row row = sweep->row;
        row.layer = layer;
        row.peers = sweep->peers;
        row.oracle = oracle;
        row.x = x;
        row.n = sweep->n[i];
        if (sweep->seconds_for) {
            row.seconds = sweep->seconds_for(sweep->self, &layer->spec, row.n);
            if (!(row.seconds > 0))
                continue;
        }
        bool measured = false;
        int done = bench_row_measure(&row, &measured);
        status = done ? done : status;
        int taken = measured ? sweep->take(sweep->self, &row) : CMD_OK;
        bench_row_clear(&row);
        if (taken)
            return taken;
    }
    return status;
}

int bench_sweep_run(const bench_sweep *sweep, const ffn_spec *spec) {
    const cmd *command = sweep->row.command;
    ffn_diag diag = {0};
    ffn_machine machine;
    bench_layer layer;
    bench_oracle oracle = {0};
    int64_t most = 1;
    for (int i = 0; i < sweep->n_count; i++)
        most = sweep->n[i] > most ? sweep->n[i] : most;
    if (most > INT64_MAX / 16 / spec->d_model || most > INT64_MAX / 16 / spec->d_ff)
        return cmd_error(command, CMD_USAGE, "n = %lld rows cannot be held", (long long)most);
    ffn_machine_read(&machine);
    if (bench_layer_create(spec, sweep->weights, sweep->row.cold, &machine, &layer, &diag))
        return cmd_diag(command, &diag);
    float *seeded = sweep->x ? NULL : bench_alloc((size_t)(most * spec->d_model) * sizeof(float));
    const float *x = sweep->x ? sweep->x : seeded;
    int status = CMD_OK;
    if (seeded)
        bench_fill(seeded, most * spec->d_model, 1, X_SEED);
    if (!x)
        status = cmd_error(command, CMD_FAILED, "no memory for %lld rows", (long long)most);
    else if (bench_oracle_create(&layer, x, sweep->n, sweep->n_count, &oracle, &diag))
        status = cmd_diag(command, &diag);
    if (!status) {
        bench_peers_take(sweep->peers, &layer, bench_team_size(sweep->row.team));
        status = run_rows(sweep, &layer, x, &oracle);
        bench_peers_drop(sweep->peers);
    }
    bench_oracle_destroy(&oracle);
    bench_free(seeded);
    bench_layer_destroy(&layer);
    return status;
}

int bench_peers_of(const cmd *command, const char *names, bench_peers *peers) {
    ffn_diag diag;
    if (bench_peers_parse(names, peers, &diag))
        return cmd_error(command, CMD_USAGE, "--vs: %s", diag.text);
    bench_peers_open(peers);
    for (int i = 0; i < peers->count; i++) {
        if (*peers->list[i].missing)
            cmd_note(command, "%s is missing: %s", peers->list[i].name, peers->list[i].missing);
    }
    const char *environment = bench_peer_environment();
    if (peers->count && *environment)
        cmd_note(command, "set, and of influence on peers: %s", environment);
    return CMD_OK;
}

int bench_preset_specs(ffn_spec **specs, int *count) {
    int presets = 0;
    while (ffn_preset_at((size_t)presets))
        presets++;
    ffn_spec *all = realloc(*specs, (size_t)(*count + presets) * sizeof *all);
    if (!all)
        return CMD_FAILED;
    *specs = all;
    for (int i = 0; i < presets; i++) {
        bool known = ffn_spec_parse(ffn_preset_at((size_t)i)->spec, &all[*count], NULL) != FFN_OK;
        for (int j = 0; j < *count && !known; j++)
            known = ffn_spec_equal(&all[j], &all[*count]); /* models share shapes */
        *count += !known;
    }
    return CMD_OK;
}
