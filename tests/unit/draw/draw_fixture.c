/* SPDX-License-Identifier: Apache-2.0
 *
 * draw_fixture FORMAT [FIXTURE [raw|split|all_one]] renders a fixture to stdout, for tests with
 * real readers. draw_fixture difference FORMAT renders what changed from version_1 to version_2.
 * draw_fixture hashes prints the CSP source expressions of the script and the style.
 */
#include "api/draw/diff.h"
#include "tests/unit/draw/fixture.h"

#include <stdio.h>
#include <string.h>

static int draw(const char *output, const char *name, const char *how) {
    struct sonde_profile *profile = fixture(name);
    const struct sonde_format_info *format =
        profile ? sonde_format_from_output_of(sonde_slice_of(output), sonde_draw_subject(profile))
                : NULL;
    if (profile && !format)
        format = sonde_format_from_output(sonde_slice_of(output));
    if (!format || !profile)
        return fprintf(stderr, "no format %s or no fixture %s\n", output, name), 2;
    struct sonde_draw_options options = fixture_options(name);
    options.split_threads = strcmp(how, "split") == 0;
    options.all_one = strcmp(how, "all_one") == 0;
    options.gzip_level = strcmp(how, "raw") == 0 ? -1 : 0;
    struct sonde_buf out = {0};
    struct sonde_diag diag = {0};
    sonde_err err = sonde_draw(profile, format->format, &options, &out, &diag);
    if (err)
        fprintf(stderr, "%s\n", sonde_diag_text(&diag, err));
    fwrite(sonde_buf_slice(&out).data, 1, out.len, stdout);
    sonde_buf_finish(&out);
    sonde_profile_destroy(profile);
    return err != SONDE_OK;
}

static int draw_difference(const char *output) {
    struct sonde_profile *base = fixture("version_1"), *now = fixture("version_2");
    const struct sonde_format_info *format = sonde_format_from_output(sonde_slice_of(output));
    const struct sonde_draw_diff diff = {.base = base, .now = now};
    const struct sonde_draw_options options = {0};
    struct sonde_buf out = {0};
    if (!format || sonde_draw_difference(&diff, format->format, &options, &out, NULL))
        return fprintf(stderr, "no difference as %s\n", output), 2;
    fwrite(sonde_buf_slice(&out).data, 1, out.len, stdout);
    sonde_buf_finish(&out);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return fprintf(stderr, "usage: draw_fixture FORMAT [FIXTURE [raw|split|all_one]]\n"), 2;
    if (strcmp(argv[1], "hashes") == 0)
        return printf("%s\n%s\n", sonde_draw_svg_script_hash(), sonde_draw_svg_style_hash()) < 0;
    if (strcmp(argv[1], "difference") == 0 && argc > 2)
        return draw_difference(argv[2]);
    return draw(argv[1], argc > 2 ? argv[2] : "server", argc > 3 ? argv[3] : "");
}
