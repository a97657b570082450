/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that does nothing but use CPU time, in burn_here. */

__attribute__((noinline)) static void burn_here(void) {
    for (volatile unsigned i = 0;;)
        i++;
}

int main(void) {
    burn_here();
}
