/* SPDX-License-Identifier: Apache-2.0
 *
 * The version of everything in this tree: what each --version prints, what the parts send each
 * other, and the name of the packages. CHANGELOG.md has a section for it, and api/rest/openapi.yaml
 * also names it; //tests/lint compares them. Preprocessor only, because scripts read it as well. */
#ifndef SONDE_API_VERSION_H
#define SONDE_API_VERSION_H

#define SONDE_VERSION "0.2.0"

#endif
