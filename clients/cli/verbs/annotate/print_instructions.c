/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/cli.h"
#include "clients/cli/verbs/annotate/arrows.h"
#include "clients/cli/verbs/annotate/print.h"

#include <inttypes.h>
#include <stdlib.h>

#define CONTEXT 6 /* instructions before and after one with samples */

struct listing {
    const struct view *view;
    const struct print_options *options;
    uint32_t *rows; /* numbers of the shown instructions */
    uint32_t count;
    struct arrows arrows;
};

static bool near_counts(const struct view *view, uint32_t at) {
    uint32_t first = at > CONTEXT ? at - CONTEXT : 0;
    for (uint32_t i = first; i < view->instruction_count && i <= at + CONTEXT; i++)
        if (print_has_counts(view->instructions[i].counts))
            return true;
    return false;
}

/* The row of an address; UINT32_MAX = it is not shown. */
static uint32_t find_row(const struct listing *listing, uint64_t address) {
    uint32_t low = 0, high = listing->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (listing->view->instructions[listing->rows[middle]].code->address < address)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < listing->count &&
                 listing->view->instructions[listing->rows[low]].code->address == address;
    return found ? low : UINT32_MAX;
}

static bool draw_arrows(struct listing *listing) {
    struct arrow *arrows = calloc(listing->count + 1, sizeof *arrows);
    uint32_t count = 0;
    for (uint32_t i = 0; arrows && i < listing->count; i++) {
        const Sonde__V1__CodeInstruction *code = listing->view->instructions[listing->rows[i]].code;
        bool jumps = code->kind == SONDE__V1__CODE_INSTRUCTION__KIND__JUMP ||
                     code->kind == SONDE__V1__CODE_INSTRUCTION__KIND__BRANCH;
        uint32_t to = jumps && code->target ? find_row(listing, code->target) : UINT32_MAX;
        if (to != UINT32_MAX)
            arrows[count++] = (struct arrow){i, to};
    }
    bool good = arrows && arrows_init(&listing->arrows, listing->count, arrows, count);
    free(arrows);
    return good;
}

/* A heading where the line changes, with the call of an inlined one. */
static void put_place(const struct listing *listing, uint32_t number) {
    const struct view *view = listing->view;
    const struct view_place *place = number == VIEW_NONE ? NULL : &view->places[number];
    if (!place || place->line == 0)
        return;
    print_columns(view, NULL);
    printf("  %s:%u  ", print_base_name(place->file), place->line);
    const char *text = source_text_line(listing->options->texts, place->file, place->line);
    if (text)
        print_source(text);
    if (place->parent != VIEW_NONE) {
        fputs(text ? "  (" : "(", stdout);
        print_function(stdout, place->function);
        const struct view_place *call = &view->places[place->parent];
        printf(", inlined at %s:%u)", print_base_name(call->file), call->line);
    }
    putchar('\n');
}

static void put_row(const struct listing *listing, uint32_t row) {
    const struct view_instruction *item = &listing->view->instructions[listing->rows[row]];
    print_columns(listing->view, item->counts);
    printf(" %10" PRIx64 ": ", item->code->address);
    arrows_put(&listing->arrows, row);
    putchar(' ');
    cli_put_text(stdout, item->code->text);
    print_target(listing->view, item->code);
    if (listing->arrows.is_head[row])
        fputs("  ; loop", stdout);
    putchar('\n');
}

static void put_rows(const struct listing *listing) {
    uint32_t place = VIEW_NONE;
    for (uint32_t i = 0; i < listing->count; i++) {
        const struct view_instruction *item = &listing->view->instructions[listing->rows[i]];
        bool gap = i > 0 ? listing->rows[i] != listing->rows[i - 1] + 1 || item->code->is_after_gap
                         : false;
        if (gap)
            puts("   ...");
        if (item->place != place || gap)
            put_place(listing, item->place);
        place = item->place;
        put_row(listing, i);
    }
}

sonde_err print_instructions(const struct view *view, const struct print_options *options) {
    struct listing listing = {.view = view, .options = options};
    listing.rows = calloc(view->instruction_count + 1, sizeof *listing.rows);
    for (uint32_t i = 0; listing.rows && i < view->instruction_count; i++)
        if (options->all || near_counts(view, i))
            listing.rows[listing.count++] = i;
    bool good = listing.rows && draw_arrows(&listing);
    if (good) {
        print_columns_header(view);
        printf(" %10s\n", "ADDRESS");
        put_rows(&listing);
    }
    arrows_finish(&listing.arrows);
    free(listing.rows);
    return good ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}
