// SPDX-License-Identifier: GPL-2.0-only
/* The kernel functions that super.c and its like use, for userspace. */
#include <stdarg.h>

#include "../lockstep-port.h"

u32 crc32c(u32 crc, const void *p, size_t bytes)
{
	static u32 table[256];
	const u8 *b = p;

	if (!table[1]) {
		for (u32 i = 0; i < 256; i++) {
			u32 c = i;

			for (int k = 0; k < 8; k++)
				c = c >> 1 ^ (c & 1 ? 0x82f63b78U : 0);
			table[i] = c;
		}
	}
	while (bytes--)
		crc = crc >> 8 ^ table[(crc ^ *b++) & 0xff];
	return crc;
}

int lockstep_scnprintf(char *buf, size_t size, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(buf, size, format, args);
	va_end(args);
	return n < 0 || !size ? 0 : (size_t)n < size ? n : (int)size - 1;
}
