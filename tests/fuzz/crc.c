// SPDX-License-Identifier: GPL-2.0-only
/*
 * Linked with --wrap=crc32c: the CPU does it, where it can, for most of a fuzzer's time would
 * go there. Whether all of it may be read is asked once, so it isn't less strict.
 */
#include <sanitizer/asan_interface.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

uint32_t __real_crc32c(uint32_t crc, const void *p, size_t bytes);
uint32_t __wrap_crc32c(uint32_t crc, const void *p, size_t bytes);

#ifdef __x86_64__
static uint32_t __attribute__((target("sse4.2"), no_sanitize("address", "undefined")))
by_the_cpu(uint64_t crc, const uint8_t *p, size_t bytes)
{
	for (; bytes >= 8; bytes -= 8, p += 8)
		crc = __builtin_ia32_crc32di(crc, *(const uint64_t *)p);
	while (bytes--)
		crc = __builtin_ia32_crc32qi((uint32_t)crc, *p++);
	return (uint32_t)crc;
}

uint32_t __wrap_crc32c(uint32_t crc, const void *p, size_t bytes)
{
	/* Bad ones are reported by who reads byte by byte. */
	if (!__builtin_cpu_supports("sse4.2") || __asan_region_is_poisoned((void *)p, bytes))
		return __real_crc32c(crc, p, bytes);
	return by_the_cpu(crc, p, bytes);
}
#else
uint32_t __wrap_crc32c(uint32_t crc, const void *p, size_t bytes)
{
	return __real_crc32c(crc, p, bytes);
}
#endif
