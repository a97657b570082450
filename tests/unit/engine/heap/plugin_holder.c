/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with plugins that hold memory (plugin.c): plugin_holder ONE TWO. It does as it is told,
 * one letter a line on stdin, each answered by the same letter on stdout:
 *
 *     1  load plugin ONE; 2 plugin TWO, at the same address
 *     h  hold 20 MB more from the loaded plugin
 *     f  free all of it
 *     u  unload the plugin */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 4000

static void *held[MOST];
static int count;
static void *plugin;
static int (*hold)(void **held);

static void load(const char *path, const char *function) {
    static void *address;
    plugin = dlopen(path, RTLD_NOW);
    hold = plugin ? (int (*)(void **))dlsym(plugin, function) : NULL;
    if (!hold || (address && address != (void *)hold))
        exit(2); /* not at the same address */
    address = (void *)hold;
}

int main(int argc, char **argv) {
    int letter;
    if (argc < 3)
        return 1;
    while ((letter = getchar()) != EOF) {
        if (letter == '1')
            load(argv[1], "hold_one");
        else if (letter == '2')
            load(argv[2], "hold_two");
        else if (letter == 'h' && count + 20 <= MOST)
            count += hold(held + count);
        else if (letter == 'u')
            dlclose(plugin);
        else if (letter == 'f')
            while (count > 0)
                free(held[--count]);
        if (letter != '\n') {
            putchar(letter);
            fflush(stdout);
        }
    }
    return 0;
}
