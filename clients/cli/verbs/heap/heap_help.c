/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde heap ACTION --help`. The verb's table of options serves all actions; the help of an option
 * that not all take begins with those that do: "dump, diff: ...". */
#include "clients/cli/verbs/heap/heap.h"

#include <string.h>

#define MAX_OPTIONS 40

static const struct page {
    const char *action, *usage, *about, *examples;
} pages[] = {
    {"on", "sonde heap on [TARGET] [-i SECONDS] [-k N] [-s BYTES] [-b NAME]",
     "Switches heap profiling on. The target needs the guest; `sonde run` starts it with it.",
     "  sonde heap on redis-server\n"
     "  sonde heap on redis-server --interval 1m --keep-dumps 60\n"
     "  sonde heap on 4711 --sample 524288\n"
     "  sonde heap on 4711 --backend interposed   Sonde's sampler, also if jemalloc can profile\n"},
    {"off", "sonde heap off [TARGET] [--delete-dumps]",
     "Switches heap profiling off. Saved dumps stay.",
     "  sonde heap off redis-server\n"
     "  sonde heap off redis-server --delete-dumps\n"},
    {"status", "sonde heap status [TARGET] [--json]",
     "Prints whether heap profiling is on, who samples, how often, and how much is kept.",
     "  sonde heap status redis-server\n"
     "  sonde heap status --json | jq .active\n"},
    {"dump", "sonde heap dump [TARGET] [-o FILE] [-n NNNNNN.heap] [--older-than SECONDS]",
     "Writes what holds the memory now, or a saved dump, to a file.",
     "  sonde heap dump redis-server -o heap.svg\n"
     "  sonde heap dump redis-server --older-than 10m -o leak.svg\n"
     "  sonde heap dump redis-server -n 000005.heap -o then.pb.gz\n"
     "  sonde heap dump redis-server --type inuse_objects -o - --format top\n"},
    {"list", "sonde heap list [TARGET] [--ended] [--json]", "Lists the saved dumps.",
     "  sonde heap list redis-server\n"
     "  sonde heap list --ended                   of processes that have exited\n"},
    {"diff", "sonde heap diff BASE [NEW [TARGET]] | [TARGET] -d SECONDS [-o FILE]",
     "Shows which code holds more memory than before. BASE and NEW are files, saved dumps\n"
     "(NNNNNN.heap) or `now`.",
     "  sonde heap diff 000001.heap now redis-server\n"
     "  sonde heap diff 000001.heap 000005.heap redis-server -g -o growth.svg\n"
     "  sonde heap diff redis-server -d 1m        now against a minute later\n"
     "  sonde heap diff before.heap after.heap -o diff.svg\n"},
    {"allocs", "sonde heap allocs [TARGET] [-d SECONDS] [-s BYTES | -p P] [-o FILE]",
     "Records what is allocated during a period, whether or not it is freed.",
     "  sonde heap allocs redis-server -d 5s -o allocs.svg\n"
     "  sonde heap allocs redis-server --sample 65536 -o allocs.pb.gz\n"
     "  sonde heap allocs redis-server --probability 0.01 -o allocs.svg\n"
     "  sonde heap allocs redis-server --type alloc_objects -o - --format top\n"},
    {"reset", "sonde heap reset [TARGET] [-s BYTES]",
     "Discards all samples and starts again, so that later dumps only have what is allocated\n"
     "from now on. They cannot be compared with earlier ones.",
     "  sonde heap reset redis-server\n"
     "  sonde heap reset redis-server --sample 65536\n"},
};

/* The text after "dump, diff: "; NULL if the list does not have the action. A text without a list
 * is of all actions. */
static const char *help_for(const char *action, const char *help) {
    size_t len = strlen(action), list = strcspn(help, ":");
    bool is_list = help[list] == ':' && strspn(help, "abcdefghijklmnopqrstuvwxyz, ") == list;
    bool is_known = false;
    for (size_t i = 0; is_list && i < COUNT_OF(pages); i++)
        is_known |= strncmp(help, pages[i].action, strlen(pages[i].action)) == 0;
    if (!is_known)
        return help;
    for (const char *word = help; word < help + list; word += strcspn(word, " :") + 1)
        if (strncmp(word, action, len) == 0 && strchr(",:", word[len]))
            return help + list + 2;
    return NULL;
}

static bool writes_file(const char *action) {
    return strcmp(action, "dump") == 0 || strcmp(action, "diff") == 0 ||
           strcmp(action, "allocs") == 0;
}

static void print_page(const struct page *page, const struct sonde_options *all) {
    struct sonde_option table[MAX_OPTIONS];
    struct sonde_options options = {
        .usage = page->usage, .about = page->about, .examples = page->examples, .table = table};
    for (size_t i = 0; i < all->count && options.count < MAX_OPTIONS; i++) {
        struct sonde_option option = all->table[i];
        bool is_of_file = strcmp(option.name, "format") == 0 || strcmp(option.name, "type") == 0;
        option.help = option.help ? help_for(page->action, option.help) : NULL;
        if (option.help && (!is_of_file || writes_file(page->action)))
            table[options.count++] = option;
    }
    sonde_options_help(&options, stdout);
}

bool heap_help(int argc, char **argv, const struct sonde_options *options) {
    bool is_asked = false;
    for (int i = 2; i < argc; i++)
        is_asked |= strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
    for (size_t i = 0; is_asked && i < COUNT_OF(pages); i++)
        if (strcmp(argv[1], pages[i].action) == 0) {
            print_page(&pages[i], options);
            return true;
        }
    return false;
}
