#define _GNU_SOURCE
#include "parallel.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#define MR_WORKERS 63          /* most threads of the pool */
#define MR_STACK (512 << 10)   /* bytes */
#define MR_PATIENCE 16         /* a loop that lost time is made up for by so many times that time without the pool */
#define MR_MOST_LOST 4000000   /* nanoseconds, a time slice: a pause of the process is no reason to do without the pool */
#define MR_SPINS 2000          /* a few microseconds, in which most chunks end that are in progress at the end */

#ifdef __x86_64__
#define MR_PAUSE() __builtin_ia32_pause()
#else
#define MR_PAUSE() ((void)0)
#endif

typedef struct {
    mr_chunk work;
    const void *loop;
    int32_t chunks;
    int32_t seats;        /* number of threads of the pool that may still join; under `lock` */
    atomic_int next;      /* the first chunk that nobody has begun */
    atomic_int joined;    /* number of threads of the pool that are at work */
} mr_job;

/* The only state of the process in the kernels. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    mr_job *job;          /* NULL: there is none that can be joined */
    int32_t workers;      /* number of threads */
    int is_registered;    /* whether `forget_threads` has been registered */
    int64_t debt;         /* nanoseconds of loops to do without the pool first; only the taker reads and writes it */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static atomic_flag is_taken = ATOMIC_FLAG_INIT; /* a loop runs */

/* A child process has neither the threads nor the loop of its parent, whoever held the lock. */
static void forget_threads(void)
{
    pool.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    pool.wake = pool.done = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    pool.job = NULL;
    pool.workers = 0;
    pool.debt = 0;
    atomic_flag_clear(&is_taken);
}

/* Returns the number of chunks that this thread has done. */
static int32_t do_chunks(mr_job *job)
{
    int32_t chunk, mine = 0;
    for (; (chunk = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < job->chunks; mine++)
        job->work(job->loop, chunk);
    return mine;
}

static void *work(void *unused)
{
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        mr_job *job = pool.job;
        if (!job || !job->seats) {
            pthread_cond_wait(&pool.wake, &pool.lock);
            continue;
        }
        job->seats--;
        atomic_fetch_add(&job->joined, 1);
        pthread_mutex_unlock(&pool.lock);
        do_chunks(job);
        pthread_mutex_lock(&pool.lock);
        /* The caller may return as soon as this is 0: `job` must not be read any more. */
        if (atomic_fetch_sub(&job->joined, 1) == 1) pthread_cond_signal(&pool.done);
    }
    return unused;
}

/* Starts threads until there are `wanted`, with all signals blocked. Called with the lock held. */
static void start_threads(int32_t wanted)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_t thread;
    if (!pool.is_registered) pool.is_registered = pthread_atfork(NULL, NULL, forget_threads) == 0;
    if (!pool.is_registered || pthread_attr_init(&attributes)) return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, MR_STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.workers < wanted && pthread_create(&thread, &attributes, work, NULL) == 0) pool.workers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

static void share(mr_job *job)
{
    pthread_mutex_lock(&pool.lock);
    if (pool.workers < job->seats) start_threads(job->seats);
    pool.job = job;
    for (int32_t at = 0; at < job->seats; at++) pthread_cond_signal(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
}

/* Lets no other thread join, and waits for those that have. */
static void finish(mr_job *job)
{
    pthread_mutex_lock(&pool.lock);
    pool.job = NULL;
    pthread_mutex_unlock(&pool.lock);
    for (int32_t at = 0; at < MR_SPINS && atomic_load(&job->joined); at++) MR_PAUSE();
    pthread_mutex_lock(&pool.lock);
    while (atomic_load(&job->joined)) pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

/* Nanoseconds. */
static int64_t read_clock(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static void do_all(const mr_job *job)
{
    for (int32_t chunk = 0; chunk < job->chunks; chunk++) job->work(job->loop, chunk);
}

/* Where other processes keep the cores busy, the pool gains nothing, and a thread may sleep over a chunk that it has begun.
 * The time by which the caller is later than it would have been alone becomes a debt, which loops without the pool pay
 * off, so that few loops of many are slow. */
static void do_with_others(mr_job *job)
{
    const int64_t began = read_clock(CLOCK_MONOTONIC), worked = read_clock(CLOCK_THREAD_CPUTIME_ID);
    int64_t alone, lost;
    int32_t mine;
    if (pool.debt > 0) {
        do_all(job);
        pool.debt -= read_clock(CLOCK_MONOTONIC) - began;
        return;
    }
    share(job);
    mine = do_chunks(job);
    alone = (read_clock(CLOCK_THREAD_CPUTIME_ID) - worked) / (mine ? mine : 1) * job->chunks;
    finish(job);
    lost = read_clock(CLOCK_MONOTONIC) - began - alone;
    if (lost > MR_MOST_LOST) lost = MR_MOST_LOST;
    pool.debt = lost > 0 ? lost * MR_PATIENCE : 0;
}

void mr_parallel(int32_t threads, int32_t chunks, mr_chunk each, const void *loop)
{
    const int32_t others = threads < chunks ? threads - 1 : chunks - 1;
    mr_job job = {.work = each, .loop = loop, .chunks = chunks, .seats = others < MR_WORKERS ? others : MR_WORKERS};
    if (others > 0 && !atomic_flag_test_and_set(&is_taken)) {
        do_with_others(&job);
        atomic_flag_clear(&is_taken);
    } else {
        do_all(&job);
    }
}

typedef struct {
    mr_block work;
    const void *loop;
    int32_t n, size; /* number of positions, in all and in a chunk */
} mr_blocks;

static void do_blocks(const void *loop, int32_t chunk)
{
    const mr_blocks *b = loop;
    const int32_t first = chunk * b->size, end = b->n - first < b->size ? b->n : first + b->size;
    for (int32_t at = first; at < end; at += MR_BLOCK) b->work(b->loop, at, end - at < MR_BLOCK ? end - at : MR_BLOCK);
}

void mr_parallel_blocks(int32_t threads, int32_t n, mr_block work, const void *loop)
{
    const int32_t blocks = n / MR_BLOCK + 1, chunks = threads < blocks / MR_SHARES ? threads * MR_SHARES : blocks;
    const mr_blocks all = {work, loop, n, (blocks + chunks - 1) / chunks * MR_BLOCK};
    mr_parallel(threads, (n + all.size - 1) / all.size, do_blocks, &all);
}
