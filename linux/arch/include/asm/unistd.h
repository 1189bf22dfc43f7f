/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_TRANSOM_UNISTD_H
#define _ASM_TRANSOM_UNISTD_H

#include <uapi/asm/unistd.h>

#endif
