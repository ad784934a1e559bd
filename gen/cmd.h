/* cmd.h: what the subcommands of ffngen share: exit statuses, messages, opening a kernel
 *
 * A subcommand turns its arguments into lines on standard output and an exit status. Everything else it has to say
 * goes to standard error. */
#ifndef CMD_H
#define CMD_H

#include "ffn.h"

enum { CMD_OK = 0, CMD_FAILED = 1, CMD_USAGE = 2 }; /* exit statuses: a check or the work failed; bad usage */

typedef struct cmd {
    const char *name;
    const char *arguments; /* of the usage line */
    const char *summary;   /* one line */
    const char *details;   /* the rest of its --help, options excluded */
    int (*run)(const struct cmd *command, int argc, char **argv);
    bool measures; /* wants the OpenBLAS that is installed, not one that its environment variables choose */
} cmd;

extern const cmd cmd_run, cmd_verify, cmd_bench, cmd_explain, cmd_list, cmd_emit, cmd_pack, cmd_cache, cmd_demo,
    cmd_calibrate, cmd_tune, cmd_tuned_tables;

/* "ffngen run: <message>" to standard error; returns `status`. CMD_USAGE adds where the help is. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
int cmd_error(const cmd *command, int status, const char *format, ...);
/* The message of a diag; BAD_ARGUMENT and BAD_SPEC are bad usage, the rest failures. */
int cmd_diag(const cmd *command, const ffn_diag *diag);
/* A remark: something the user should know that is no error. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void cmd_note(const cmd *command, const char *format, ...);
/* A line of results. In it as in the messages above control characters, which names of files may have, are '?'. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
void cmd_print(const char *format, ...);

/* The specs named by operands; *specs is for free(). */
int cmd_specs(const cmd *command, char **texts, int count, ffn_spec **specs);
int cmd_one_spec(const cmd *command, char **texts, int count, ffn_spec *spec);
/* True if this machine runs the ISA; else a usage error is said that names those it runs. */
bool cmd_isa_runs(const cmd *command, ffn_isa isa);

/* What --store says, "default", "off" or a folder, as ffn_options.store. */
#define CMD_STORE_ARGUMENT "DIR|default|off"
const char *cmd_store(const char *given);

/* What --tuned says, "default", "off" or a file, as ffn_options.tuned. */
#define CMD_TUNED_ARGUMENT "FILE|default|off"
const char *cmd_tuned(const char *given);

/* A kernel and the context it lives in. */
typedef struct cmd_kernel {
    ffn_context *context;
    ffn_kernel *kernel;
    ffn_isa isa; /* asked for */
} cmd_kernel;

ffn_status cmd_kernel_open(const ffn_spec *spec, const ffn_options *options, cmd_kernel *kernel, ffn_diag *diag);
void cmd_kernel_close(cmd_kernel *kernel);
/* Prepares the class of n. CMD_OK also where only the portable kernel serves: a note says so and why, unless it was
 * asked for. Another one tells of a disk store that cannot be used. */
int cmd_kernel_prepare(const cmd *command, const cmd_kernel *kernel, int64_t n);

/* "perf,gdb" -> FFN_TOOL_*; NULL is none. False: a usage error was said. */
bool cmd_tools(const cmd *command, const char *names, uint32_t *tools);
/* The counters of a kernel's context: the object "counters" of a line, or in words those that are not 0. */
struct json_line;
void cmd_counters_json(const cmd_kernel *kernel, struct json_line *line);
#define CMD_COUNTERS_BYTES 192
void cmd_counters_text(const cmd_kernel *kernel, char *text, size_t text_bytes);

const char *cmd_origin_name(ffn_origin origin);
/* "model", "tuned", "hint", "given". */
const char *cmd_plan_origin_name(ffn_plan_origin origin);
/* ffn_plan_format, or "portable". */
void cmd_plan_text(const ffn_plan *plan, char *text, size_t text_bytes);

/* "tiles=6x2/1x4,f_block=512,..." over a plan made for the spec: what is not named stays. */
#define CMD_PLAN_FIELDS \
    "tiles, m_block, f_block, k_block, unroll, prefetch, ahead, row_split, vector_bits, chunk, group, copy_x, hold_y"
ffn_status cmd_plan_change(const char *changes, ffn_plan *plan, ffn_diag *diag);

#endif
