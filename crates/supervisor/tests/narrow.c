// SPDX-License-Identifier: MIT OR Apache-2.0
/* A 32-bit program without a C library: asks for sockets in both ways, and prints what it gets. */

static long call(long number, long a, long b, long c)
{
	long result;

	asm volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
	return result;
}

static void say(const char *what, long length, long result)
{
	call(4, 1, (long)what, length);
	call(4, 1, (long)(result < 0 ? " no\n" : " yes\n"), result < 0 ? 4 : 5);
}

void _start(void)
{
	long internet[3] = {2, 1, 0}, local[3] = {1, 1, 0};

	say("unix", 4, call(359, 1, 1, 0));
	say("unix", 4, call(102, 1, (long)local, 0));
	say("inet", 4, call(359, 2, 1, 0));
	say("inet", 4, call(102, 1, (long)internet, 0));
	/* EAFNOSUPPORT */
	call(1, call(359, 10, 1, 0) == -97 ? 7 : 0, 0, 0);
}
