/* peer.c: the table of known peers, and the loading of their modules */
#define _GNU_SOURCE
#include "peer.h"

#include "diag.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODULE_FORMAT "ffngen_peer_%s.so"
#define INSTALLED "../lib/ffngen/peers/"
#define PATH_BYTES 4096

static const struct {
    const char *name, *title, *package;
} known[BENCH_PEERS_MAX] = {
    {"openblas", "OpenBLAS", "libopenblas-dev"},
    {"onednn", "oneDNN", "libdnnl-dev"},
    {"libxsmm", "libxsmm", "libxsmm-dev"},
    {"blis", "BLIS", "libblis-dev"},
};

static const char *only_folder;

void bench_peers_folder(const char *folder) {
    only_folder = folder;
}

static ffn_status add(bench_peers *peers, const char *name, size_t length, ffn_diag *diag) {
    for (size_t i = 0; i < BENCH_PEERS_MAX; i++) {
        if (strlen(known[i].name) != length || strncmp(known[i].name, name, length))
            continue;
        for (int j = 0; j < peers->count; j++) {
            if (!strcmp(peers->list[j].name, known[i].name))
                return diag_fail(diag, FFN_BAD_ARGUMENT, "'%s' is named twice", known[i].name);
        }
        peers->list[peers->count++] = (bench_peer){.name = known[i].name, .title = known[i].title};
        return FFN_OK;
    }
    return diag_fail(diag, FFN_BAD_ARGUMENT,
                     "'%.*s' is no peer; peers are " BENCH_PEER_NAMES ", separated by commas; or all, or none",
                     (int)(length < 40 ? length : 40), name);
}

ffn_status bench_peers_parse(const char *text, bench_peers *peers, ffn_diag *diag) {
    bench_peers parsed = {0};
    ffn_status status = FFN_OK;
    if (!strcmp(text, "all")) {
        for (size_t i = 0; i < BENCH_PEERS_MAX && !status; i++)
            status = add(&parsed, known[i].name, strlen(known[i].name), diag);
    } else if (strcmp(text, "none")) {
        for (const char *name = text; name && !status;) {
            size_t length = strcspn(name, ",");
            status = add(&parsed, name, length, diag);
            name = name[length] ? name + length + 1 : NULL;
        }
    }
    if (!status)
        *peers = parsed;
    return status;
}

/* The file of a module, in the first place that has it. */
static bool find(const char *name, char *path) {
    char folder[PATH_BYTES];
    if (only_folder) {
        snprintf(path, PATH_BYTES, "%s/" MODULE_FORMAT, only_folder, name);
        return access(path, F_OK) == 0;
    }
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder);
    while (length > 0 && folder[length - 1] != '/')
        length--;
    if (length <= 0 || length >= PATH_BYTES - 64)
        return false;
    const char *const places[] = {"", INSTALLED};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, PATH_BYTES, "%.*s%s" MODULE_FORMAT, (int)length, folder, places[i], name);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

static void load(bench_peer *peer, const char *package) {
    char path[PATH_BYTES];
    if (!find(peer->name, path)) {
        snprintf(peer->missing, sizeof peer->missing,
                 "not built: " MODULE_FORMAT " is not there; it takes %s, which Debian has in %s", peer->name,
                 peer->title, package);
        return;
    }
    /* Local: what one peer defines is not found by another one, nor by the command. */
    peer->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    peer->module = peer->library ? dlsym(peer->library, PEER_SYMBOL) : NULL;
    if (!peer->module) {
        const char *why = dlerror();
        snprintf(peer->missing, sizeof peer->missing, "cannot be loaded: %.130s", why ? why : "no reason is given");
    } else if (peer->module->interface != PEER_INTERFACE)
        snprintf(peer->missing, sizeof peer->missing,
                 "cannot be loaded: " MODULE_FORMAT " has interface %d, %d is wanted: build both from one tree",
                 peer->name, peer->module->interface, PEER_INTERFACE);
    if (*peer->missing)
        peer->module = NULL;
    else
        peer->module->describe(peer->version);
    unsetenv("OMP_PROC_BIND"); /* which libxsmm sets: an OpenMP loaded later would pin this thread and ours to come */
}

void bench_peers_open(bench_peers *peers) {
    for (int i = 0; i < peers->count; i++) {
        for (size_t k = 0; k < BENCH_PEERS_MAX; k++) {
            if (!strcmp(known[k].name, peers->list[i].name))
                load(&peers->list[i], known[k].package);
        }
    }
}

/* The libraries stay: some have threads that would run on in unmapped code. */
void bench_peers_close(bench_peers *peers) {
    bench_peers_drop(peers);
    *peers = (bench_peers){0};
}

void bench_peers_take(bench_peers *peers, bench_layer *layer, int threads) {
    bench_peers_drop(peers);
    for (int i = 0; i < peers->count; i++) {
        bench_peer *peer = &peers->list[i];
        if (peer->module)
            peer->weights = peer->module->weights_create(layer, threads, peer->no_layer);
    }
}

void bench_peers_drop(bench_peers *peers) {
    for (int i = 0; i < peers->count; i++) {
        bench_peer *peer = &peers->list[i];
        if (peer->weights)
            peer->module->weights_destroy(peer->weights);
        peer->weights = NULL;
        *peer->no_layer = '\0';
    }
}

int bench_peer_clean_start(char **argv) {
    static const char *const variables[] = {
        "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "BLIS_ARCH_TYPE", "LIBXSMM_TARGET", "DNNL_MAX_CPU_ISA",
        "ONEDNN_MAX_CPU_ISA", "DNNL_CPU_ISA_HINTS", "ONEDNN_CPU_ISA_HINTS",
        /* OpenMP's run time pins the thread that loads it, and with it every thread of ours made later. */
        "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"};
    bool found = false;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        found = found || getenv(variables[i]);
        unsetenv(variables[i]);
    }
    if (found)
        execv("/proc/self/exe", argv);
    return found ? -1 : 0;
}

extern char **environ;

const char *bench_peer_environment(void) {
    static const char *const prefixes[] = {"OPENBLAS_", "GOTO_", "BLIS_",   "OMP_",    "GOMP_",
                                           "KMP_",      "DNNL_", "ONEDNN_", "LIBXSMM_"};
    static char names[256];
    size_t length = 0;
    names[0] = '\0';
    for (char **variable = environ; variable && *variable; variable++) {
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
            int name = (int)strcspn(*variable, "=");
            if (strncmp(*variable, prefixes[i], strlen(prefixes[i])) || length + (size_t)name + 3 > sizeof names)
                continue;
            length +=
                (size_t)snprintf(names + length, sizeof names - length, "%s%.*s", length ? ", " : "", name, *variable);
        }
    }
    return names;
}
