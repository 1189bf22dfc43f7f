/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_TRANSOM_MMU_CONTEXT_H
#define _ASM_TRANSOM_MMU_CONTEXT_H

#include <asm-generic/nommu_context.h>

#endif
