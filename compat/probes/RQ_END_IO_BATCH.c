// SPDX-License-Identifier: GPL-2.0-only
/* Who is told of a request's end is told of the batch that it ends with. */
#include <linux/blk-mq.h>

enum rq_end_io_ret probe(struct request *rq, blk_status_t status,
			 const struct io_comp_batch *batch);
enum rq_end_io_ret probe(struct request *rq, blk_status_t status,
			 const struct io_comp_batch *batch)
{
	rq_end_io_fn *f = probe;

	return f(rq, status, batch);
}
