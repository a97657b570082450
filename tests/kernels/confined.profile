# SPDX-License-Identifier: Apache-2.0
#
# For a program that needs its own files only, as Debian's packages confine their servers.
abi <abi/3.0>,
include <tunables/global>

profile confined /confined/spin {
  include <abstractions/base>
  /confined/spin mr,
}
