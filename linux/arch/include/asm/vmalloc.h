/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_TRANSOM_VMALLOC_H
#define _ASM_TRANSOM_VMALLOC_H

/* Without an MMU there is nothing to say; <linux/vmalloc.h> wants the file. */

#endif
