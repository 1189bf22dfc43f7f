// SPDX-License-Identifier: GPL-2.0
/* Kbuild wants it; our assembly knows no structure. */
int main(void)
{
	return 0;
}
