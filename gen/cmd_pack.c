/* cmd_pack.c: ffngen pack: weights in a safetensors file -> a file of packed weights; such a file -> what it holds */
#include "cmd.h"
#include "cmd_weights.h"
#include "diag.h"
#include "file.h"
#include "json.h"
#include "options.h"
#include "packed_file.h"
#include "rounds.h"
#include "weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct settings {
    const cmd *command;
    const char *weights, *output, *check;
    weights_options names;
    int layout; /* -1: not given */
    bool json;
} settings;

static int print_line(const settings *s, const char *path, const ffn_spec *spec, const packed_header *header,
                      double seconds) {
    char text[FFN_SPEC_TEXT_BYTES] = "";
    ffn_spec_format(spec, text, sizeof text, NULL);
    if (s->json) {
        json_line line = json_begin();
        json_text(&line, "file", path);
        json_text(&line, "spec", text);
        json_integer(&line, "bytes", (int64_t)header->total_bytes);
        json_integer(&line, "version", header->version);
        json_flag(&line, "finite", header->finite == 1);
        json_bits(&line, "checksum", header->checksum);
        json_number(&line, "seconds", seconds);
        return json_end(&line) ? CMD_OK : CMD_FAILED;
    }
    cmd_print("%s  %" PRIu64 " bytes  %s  %s  checksum %016" PRIx64 "  layout %" PRIu32 "  %.3f s", path,
              header->total_bytes, text, header->finite == 1 ? "finite" : "not finite", header->checksum,
              header->version, seconds);
    return CMD_OK;
}

/* ---- A file's own word on its spec ---- */

/* The name in the header is the text of the spec unless that has a formula, of which it holds the hash alone. */
static int spec_of_file(const settings *s, ffn_spec *spec) {
    ffn_diag diag = {0};
    file_map map;
    if (file_map_open(s->check, PTRDIFF_MAX, &map, &diag))
        return cmd_diag(s->command, &diag);
    packed_header header = {.version = 0};
    memcpy(&header, map.data, map.bytes < sizeof header ? map.bytes : sizeof header);
    file_map_close(&map);
    if (memcmp(header.magic, PACKED_MAGIC, sizeof PACKED_MAGIC) != 0)
        return cmd_error(s->command, CMD_FAILED, "%s is no file of packed weights", s->check);
    header.spec_name[sizeof header.spec_name - 1] = '\0';
    if (ffn_spec_parse(header.spec_name, spec, &diag) == FFN_OK)
        return CMD_OK;
    diag_fail(&diag, FFN_BAD_FILE, "%s", header.spec_name); /* in printable characters */
    if (strstr(header.spec_name, "-fx") != NULL)
        return cmd_error(s->command, CMD_USAGE, "%s is for %s, of whose formula it holds a hash: give the SPEC as well",
                         s->check, diag.text);
    return cmd_error(s->command, CMD_FAILED, "%s is damaged: it says that it is for '%s'", s->check, diag.text);
}

static int check_file(const settings *s, int argc, char **argv) {
    ffn_spec spec;
    int status = argc > 0 ? cmd_one_spec(s->command, argv, argc, &spec) : spec_of_file(s, &spec);
    if (status)
        return status;
    ffn_diag diag = {0};
    const void *packed = NULL;
    size_t bytes = 0;
    const double begin = bench_now_ms(BENCH_CLOCK_WALL);
    if (ffn_packed_map(&spec, s->check, &packed, &bytes, &diag))
        return cmd_error(s->command, CMD_FAILED, "%s", diag.text);
    if (ffn_packed_check(&spec, packed, bytes, &diag))
        status = cmd_error(s->command, CMD_FAILED, "%s: %s", s->check, diag.text);
    else
        status = print_line(s, s->check, &spec, packed, (bench_now_ms(BENCH_CLOCK_WALL) - begin) / 1e3);
    ffn_packed_unmap(packed, bytes);
    return status;
}

/* ---- Packing ---- */

static int pack_file(const settings *s, const ffn_spec *spec) {
    ffn_diag diag = {0};
    weights_file *file;
    packed_header header;
    if (file_same(s->weights, s->output))
        return cmd_error(s->command, CMD_USAGE, "--output %s is the file that --weights names", s->output);
    const double begin = bench_now_ms(BENCH_CLOCK_WALL);
    if (weights_open(spec, s->weights, &s->names, &file, &diag))
        return cmd_diag(s->command, &diag);
    const ffn_status packed = packed_file_write(spec, weights_streamed(file), s->output, &header, &diag);
    if (!packed)
        cmd_note(s->command, "weights: %s", weights_summary(file));
    weights_close(file);
    if (packed)
        return cmd_diag(s->command, &diag);
    return print_line(s, s->output, spec, &header, (bench_now_ms(BENCH_CLOCK_WALL) - begin) / 1e3);
}

static int run(const cmd *command, int argc, char **argv) {
    settings s = {.command = command, .layout = -1, .names.streamed = true};
    const option_row table[] = {
        {"weights", 'w', OPTION_TEXT, &s.weights, "FILE", "a safetensors file", NULL},
        CMD_WEIGHTS_ROWS(s.names, s.layout),
        {"output", 'o', OPTION_TEXT, &s.output, "FILE", "the packed weights, whole or not at all", NULL},
        {"check", 0, OPTION_TEXT, &s.check, "FILE", "read a file of packed weights and say what it holds", NULL},
        {"json", 0, OPTION_FLAG, &s.json, NULL, "one JSON object", NULL},
        {0}};
    int operands, status;
    if (!options_parse(command, table, argc, argv, &operands, &status))
        return status;
    if (s.check && (s.weights || s.output || s.names.map || s.layout >= 0 || s.names.layer || s.names.expert))
        return cmd_error(command, CMD_USAGE, "--check FILE takes no other option but --json");
    if (s.check)
        return check_file(&s, argc - operands, argv + operands);
    s.names.layout = cmd_layout_name(s.layout);
    ffn_spec spec;
    status = cmd_one_spec(command, argv + operands, argc - operands, &spec);
    if (status)
        return status;
    if (!s.weights || !s.output)
        return cmd_error(command, CMD_USAGE, "%s FILE is needed", s.weights ? "--output" : "--weights");
    return pack_file(&s, &spec);
}

const cmd cmd_pack = {"pack",
                      "SPEC --weights FILE -o FILE [options]  or  pack --check FILE [SPEC]",
                      "Writes weights as every kernel of the spec reads them, or checks such a file.",
                      "Programs map the file (ffn_packed_map), and so does 'ffngen run --packed FILE'.\n",
                      run,
                      false};
