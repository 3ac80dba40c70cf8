// SPDX-License-Identifier: GPL-2.0-only
/* The kernel functions that super.c and its like use, for userspace. */
#include <stdarg.h>

#include "../lockstep-port.h"

/* Eight bytes at a time: row k of the table has what a byte makes with k bytes behind it. */
u32 crc32c(u32 crc, const void *p, size_t bytes)
{
	static u32 table[8][256];
	const u8 *b = p;
	u64 word;

	if (!table[0][1]) {
		for (u32 i = 0; i < 256; i++) {
			u32 c = i;

			for (int k = 0; k < 8; k++)
				c = c >> 1 ^ (c & 1 ? 0x82f63b78U : 0);
			table[0][i] = c;
		}
		for (u32 i = 0; i < 7 * 256; i++) {
			u32 c = table[i / 256][i % 256];

			table[i / 256 + 1][i % 256] = c >> 8 ^ table[0][c & 0xff];
		}
	}
	for (; bytes >= sizeof(word); bytes -= sizeof(word), b += sizeof(word)) {
		memcpy(&word, b, sizeof(word));
		word = le64toh(word) ^ crc;
		crc = 0;
		for (int k = 0; k < 8; k++)
			crc ^= table[7 - k][word >> 8 * k & 0xff];
	}
	while (bytes--)
		crc = crc >> 8 ^ table[0][(crc ^ *b++) & 0xff];
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
