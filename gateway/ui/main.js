// SPDX-License-Identifier: Apache-2.0
document.body.append("Sonde");
