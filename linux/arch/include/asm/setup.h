/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_TRANSOM_SETUP_H
#define _ASM_TRANSOM_SETUP_H

#define COMMAND_LINE_SIZE 4096

#endif
