// SPDX-License-Identifier: GPL-2.0
/* Files of /proc, without a mount that anybody sees. */
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/slab.h>
#include <library/series.h>

#include "library.h"

static struct file *open_proc(const char *path, int flags)
{
	static struct vfsmount *proc;

	if (!proc) {
		struct vfsmount *mounted = kern_mount(get_fs_type("proc"));

		if (IS_ERR(mounted))
			return ERR_CAST(mounted);
		proc = mounted;
	}
	return file_open_root_mnt(proc, path, flags, 0);
}

/* At once: what is put off until later would wake the host for it. */
static void close_proc(struct file *file)
{
	fput_soon(file);
}

static ssize_t read_all(struct file *file, char *to, size_t size)
{
	loff_t at = 0;
	ssize_t n = 0;

	while (at < size) {
		n = vfs_read(file, (char __user *)to + at, size - at, &at);
		if (n <= 0)
			break;
	}
	return n < 0 ? n : at;
}

ssize_t linux_proc_read(const char *path, void *to, size_t size)
{
	struct file *file;
	ssize_t n;

	transom_enter();
	file = open_proc(path, O_RDONLY);
	if (IS_ERR(file))
		return transom_leave(PTR_ERR(file));
	n = read_all(file, to, size);
	close_proc(file);
	return transom_leave(n);
}

ssize_t linux_proc_write(const char *path, const void *from, size_t size)
{
	struct file *file;
	loff_t at = 0;
	ssize_t n;

	transom_enter();
	file = open_proc(path, O_WRONLY);
	if (IS_ERR(file))
		return transom_leave(PTR_ERR(file));
	n = vfs_write(file, (const char __user *)from, size, &at);
	close_proc(file);
	return transom_leave(n);
}
