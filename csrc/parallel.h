/* A pool of threads for loops over nodes. */
#ifndef MOORAGE_PARALLEL_H
#define MOORAGE_PARALLEL_H

#include <stdint.h>

/* The work of one chunk of a loop. It must write nothing that another chunk reads or writes. */
typedef void (*mr_chunk)(const void *loop, int32_t chunk);

/* Calls `work` for each chunk in [0, chunks), in this thread and at most `threads` - 1 others, and returns when all have
 * returned. Threads of the pool are started at the first need, and sleep while there is no work. The caller takes chunks
 * as they do, so it waits at the end for chunks that others have begun, and for nothing else. Where another loop runs
 * already, around this one or in another thread, and where no thread can be started, the caller does all of the work.
 * Any thread may call it, and so may the child process of a fork. */
void mr_parallel(int32_t threads, int32_t chunks, mr_chunk work, const void *loop);

/* A good number of chunks for each thread. */
#define MR_SHARES 8

/* The work on positions [first, first + n), n <= MR_BLOCK. */
#define MR_BLOCK 256
typedef void (*mr_block)(const void *loop, int32_t first, int32_t n);

/* Calls `work` for all blocks of n positions, by mr_parallel. */
void mr_parallel_blocks(int32_t threads, int32_t n, mr_block work, const void *loop);

#endif
