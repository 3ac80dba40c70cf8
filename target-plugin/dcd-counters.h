/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A counter for each distinct way that something can take: DCD_COUNTER(ID, name)
 * for DCD_N_ID, which info shows as "name" and configfs as attrib/stat_name.
 * Included wherever something is made of each of them; so there is no guard.
 */
DCD_COUNTER(READS, reads)
DCD_COUNTER(MEMORY_READS, memory_reads)	/* ranges found in a slot, for reads or destage */
DCD_COUNTER(ZERO_PIECES, zero_pieces)	/* of reads */
DCD_COUNTER(LOG_PIECES, log_pieces)
DCD_COUNTER(LOG_MOVED, log_moved)	/* of these: they were somewhere else when it answered */
DCD_COUNTER(DATA_PIECES, data_pieces)
DCD_COUNTER(CACHE_HITS, cache_hits)	/* pieces, as those */
DCD_COUNTER(CACHE_MISSES, cache_misses)	/* read from a disk by way of the cache */
DCD_COUNTER(CACHE_BYPASSED, cache_bypassed)	/* read past it: of a sequence */
DCD_COUNTER(CACHE_NOMEM, cache_nomem)	/* the same: memory is short */
DCD_COUNTER(CACHE_EVICTED, cache_evicted)	/* blocks: to make room for others */
DCD_COUNTER(CACHE_SHRUNK, cache_shrunk)	/* given back to the kernel */
DCD_COUNTER(CACHE_STALE, cache_stale)	/* written and destaged since */
DCD_COUNTER(CACHE_DESTAGED, cache_destaged)	/* were the log's, are the data disk's */
DCD_COUNTER(CACHE_LATE, cache_late)	/* not kept: destaged while they were read */
DCD_COUNTER(READ_HOPS, read_hops)	/* reads that needed a worker, for the log */
DCD_COUNTER(READ_BOUNCES, read_bounces)	/* reads into memory that disks can't read into */
DCD_COUNTER(READ_QUEUED, read_queued)	/* pieces that might have waited to be asked for */
DCD_COUNTER(READS_GIVEN_UP, reads_given_up)	/* while a disk was at them */
DCD_COUNTER(READS_PARKED, reads_parked)	/* waited, as there were too many of those */
DCD_COUNTER(READS_TAKEN_OVER, reads_taken_over)	/* by who tried again, while a disk was at them */
DCD_COUNTER(READ_TURNS, read_turns)	/* waited for other scattered reads of the log */
DCD_COUNTER(WRITES, writes)
DCD_COUNTER(THROUGH, through)	/* requests done by the data disk alone: leave.h */
DCD_COUNTER(THROUGH_GIVEN_UP, through_given_up)	/* of those, while the disk was at them */
DCD_COUNTER(BATCHES, batches)	/* of the writes */
DCD_COUNTER(BATCH_RANGES, batch_ranges)
DCD_COUNTER(ZEROES, zeroes)
DCD_COUNTER(DISCARDS, discards)
DCD_COUNTER(FLUSHES, flushes)
DCD_COUNTER(FUA, fua)
DCD_COUNTER(WRITTEN_SECTORS, written_sectors)
DCD_COUNTER(TOGETHER, published_together)	/* entries, with others */
DCD_COUNTER(THROTTLED, throttled)
DCD_COUNTER(WAITS_FOR_ROOM, waits_for_room)
DCD_COUNTER(BUSY, busy)	/* waits that took too long */
DCD_COUNTER(UNWANTED, unwanted)	/* waits of requests that were aborted */
DCD_COUNTER(SEGMENTS, segments)
DCD_COUNTER(LOG_SECTORS, log_sectors)
DCD_COUNTER(SUPERBLOCKS, superblocks)	/* copies of it that were written */
DCD_COUNTER(SUPERBLOCKS_BOTH, superblocks_both)	/* of these, the second one of a tail */
DCD_COUNTER(ROUNDS, rounds)
DCD_COUNTER(PREEMPTED, preempted)
DCD_COUNTER(BYPASS_ROUNDS, bypass_rounds)
DCD_COUNTER(LEG_MARKS, leg_marks)	/* the data disk was told that it is past the log */
DCD_COUNTER(DESTAGED_SECTORS, destaged_sectors)
DCD_COUNTER(FILLED_SECTORS, filled_sectors)	/* with zeroes, in the turn */
DCD_COUNTER(WIPED_SECTORS, wiped_sectors)	/* pieces of zeroes, discarded ones too */
DCD_COUNTER(DISCARDED_SECTORS, discarded_sectors)	/* passed on to the data disk */
DCD_COUNTER(DISCARDS_HUNG, discards_hung)	/* those that destage didn't wait for any longer */
DCD_COUNTER(ZEROINGS_HUNG, zeroings_hung)	/* likewise */
DCD_COUNTER(WRITES_LATE, writes_late)	/* likewise, of the destager's writes */
DCD_COUNTER(LOGGED_AGAIN, logged_again)		/* ranges, at the head */
DCD_COUNTER(BAD_PLACES, bad_places)	/* ranges that the data disk was found not to take */
DCD_COUNTER(BAD_MENDED, bad_mended)	/* it took them later */
DCD_COUNTER(READ_ERRORS, read_errors)
DCD_COUNTER(WRITE_ERRORS, write_errors)
DCD_COUNTER(FLUSH_ERRORS, flush_errors)
DCD_COUNTER(LOG_WRITE_ERRORS, log_write_errors)
DCD_COUNTER(LOG_BLIPS, log_blips)	/* I/Os that failed and were tried again: blip.h */
DCD_COUNTER(LOG_READ_ERRORS, log_read_errors)
DCD_COUNTER(LOG_READS_LATE, log_reads_late)	/* that nobody waited for any longer */
DCD_COUNTER(LOG_WRITES_LATE, log_writes_late)	/* likewise */
DCD_COUNTER(DOUBTED, doubted)	/* places of the ring */
DCD_COUNTER(READ_BACK, read_back)	/* segments that were written to one of those */
DCD_COUNTER(READ_BACK_BAD, read_back_bad)	/* of these: they weren't there */
DCD_COUNTER(READ_BACK_LATE, read_back_late)	/* or nobody waited for them */
DCD_COUNTER(BLOCKS_MOVED, blocks_moved)	/* of the log, to spares */
DCD_COUNTER(SLOTS_PINNED, slots_pinned)	/* slots that kept such a one */
DCD_COUNTER(BAD_SUMS, bad_sums)	/* ranges of the log that don't have their checksum */
DCD_COUNTER(READ_BETTER, read_better)	/* wrong, and right when they were read again */
DCD_COUNTER(LOST_PLACES, lost_places)	/* of the log: logged as lost */
DCD_COUNTER(LOST_READS, lost_reads)	/* medium errors for those */
DCD_COUNTER(WOUNDS_CLOSED, wounds_closed)	/* damaged in the log, and the data disk had them */
DCD_COUNTER(SCRUBBED, scrubbed)	/* segments */
DCD_COUNTER(SCRUB_BAD, scrub_bad)	/* of those */
DCD_COUNTER(NVRAM_ERRORS, nvram_errors)	/* reads of it that found a media error */
DCD_COUNTER(NVRAM_MENDED, nvram_mended)	/* the driver has cleared one, for what was written */
DCD_COUNTER(NVRAM_UNMENDED, nvram_unmended)	/* it couldn't */
DCD_COUNTER(TAKEN_BACK, taken_back)	/* entries: one that it couldn't keep, all behind it */
DCD_COUNTER(NVRAM_LOST, nvram_lost)	/* sectors that were only there; media errors now */
DCD_COUNTER(DATA_ERRORS, data_errors)
DCD_COUNTER(NOMEM, nomem)
DCD_COUNTER(RECOVERED_SEGMENTS, recovered_segments)	/* live at open, of NVRAM too */
DCD_COUNTER(RECOVERED_ENTRIES, recovered_entries)
DCD_COUNTER(RECOVERY_BYTES, recovery_bytes)	/* read of the log */
DCD_COUNTER(RECOVERY_US, recovery_us)
DCD_COUNTER(DIGESTS, digests)	/* blocks */
