/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
#include <library/series.h>

#include SERIES_UNISTD
