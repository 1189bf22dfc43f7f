// SPDX-License-Identifier: GPL-2.0
/* The kernel's log goes to the host. */
#include <linux/console.h>
#include <linux/init.h>

#include "library.h"

static void write_text(struct console *console, const char *text, unsigned int size)
{
	host->console(host->host, text, size);
}

static struct console host_console = {
	.name = "host",
	.write = write_text,
	.flags = CON_PRINTBUFFER | CON_ENABLED | CON_ANYTIME,
	.index = -1,
};

static int __init register_host_console(void)
{
	register_console(&host_console);
	return 0;
}
console_initcall(register_host_console);
