/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/gate/input.h"

#include <stdlib.h>

void gate_input_finish(struct gate_input *input) {
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < input->counts[side]; i++)
            sonde_profile_destroy(input->runs[side][i].profile);
        free(input->runs[side]);
    }
    *input = (struct gate_input){0};
}

sonde_err gate_input_add(struct gate_input *input, int side, const struct gate_run *run,
                         struct sonde_diag *diag) {
    size_t count = input->counts[side];
    struct gate_run *runs = reallocarray(input->runs[side], count + 1, sizeof *runs);
    if (!runs) {
        sonde_profile_destroy(run->profile);
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    }
    input->runs[side] = runs;
    runs[count] = *run;
    input->counts[side]++;
    return SONDE_OK;
}

static double exposure(const struct gate_input *input, const struct gate_per *per, int side,
                       size_t index) {
    double seconds = input->runs[side][index].seconds, all = 0;
    bool is_second =
        per->kind == GATE_PER_SECOND || (per->kind == GATE_PER_DEFAULT && input->is_history);
    if (is_second)
        return seconds;
    if (!input->is_history)
        return per->counts[side];
    for (size_t i = 0; i < input->counts[side]; i++) /* the count is of the whole range */
        all += input->runs[side][i].seconds;
    return per->counts[side] * seconds / all;
}

sonde_err gate_exposures(const struct gate_input *input, const struct gate_per *per,
                         double **exposures, struct sonde_diag *diag) {
    size_t count = input->counts[0] + input->counts[1], at = 0;
    *exposures = calloc(count + 1, sizeof **exposures);
    if (!*exposures)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < input->counts[side]; i++) {
            (*exposures)[at] = exposure(input, per, side, i);
            if (!((*exposures)[at++] > 0))
                return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                                  "--per second: %.120s does not say how long it was recorded",
                                  input->runs[side][i].name);
        }
    return SONDE_OK;
}
