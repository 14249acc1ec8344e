/* Load for a server of lines on a Unix socket, in C so that the client is not what is measured.
 *
 *     load SOCKET CONNECTIONS DEPTH SECONDS LINE
 *
 * Each connection keeps DEPTH copies of LINE unanswered until SECONDS are over, then takes the
 * answers that are due. An answer is a line; the nth answer on a connection is taken to be that of
 * its nth request. Prints one JSON object. An answer with "ok":false ends it with status 1.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    STEPS = 32,              /* of the histogram between two powers of two: 3 % of a latency */
    BUCKETS = 64 * STEPS,
    READ_BYTES = 1 << 18,
    EVENTS = 256,
    WRITE_BYTES = 1 << 16,   /* fits a socket's buffer, so a blocking write waits for nobody */
};

struct connection {
    int fd;
    uint64_t asked, answered;
    uint64_t *sent;          /* ring of DEPTH moments, in ns */
};

static uint64_t histogram[BUCKETS];
static char *lines;          /* LINE as often as DEPTH */
static size_t line_bytes;
static uint64_t depth;

static void fail(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, errno ? strerror(errno) : "not as it should be");
    exit(1);
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static unsigned bucket_of(uint64_t ns)
{
    if (ns < STEPS)
        return (unsigned)ns;
    unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - 5u;
    return (shift + 1) * STEPS + (unsigned)(ns >> shift) - STEPS;
}

static double microseconds_of(unsigned bucket)
{
    if (bucket < STEPS)
        return bucket / 1e3;
    unsigned shift = bucket / STEPS - 1;
    return (double)((uint64_t)(bucket % STEPS + STEPS + 1) << shift) / 1e3;
}

static double percentile(double share, uint64_t total)
{
    uint64_t wanted = (uint64_t)(share * (double)total), seen = 0;
    for (unsigned i = 0; i < BUCKETS; i++)
        if ((seen += histogram[i]) > wanted)
            return microseconds_of(i);
    return 0;
}

static int connected(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        fail("path too long");
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
        fail(path);
    return fd;
}

static void ask(struct connection *c, uint64_t count, uint64_t moment)
{
    size_t size = count * line_bytes;
    for (size_t done = 0; done < size;) {
        ssize_t wrote = write(c->fd, lines + done, size - done);
        if (wrote < 0)
            fail("write");
        done += (size_t)wrote;
    }
    for (; count; count--)
        c->sent[c->asked++ % depth] = moment;
}

static uint64_t take(struct connection *c, uint64_t *moment)
{
    static char data[READ_BYTES];
    ssize_t got = read(c->fd, data, sizeof data);
    if (got <= 0)
        fail(got ? "read" : "the server closed");
    if (memmem(data, (size_t)got, "\"ok\":false", 10))
        fail("an answer says ok: false");
    uint64_t count = 0;
    *moment = now();
    for (char *p = data, *end = data + got; (p = memchr(p, '\n', (size_t)(end - p))); p++) {
        if (c->answered == c->asked)
            fail("more answers than requests");
        histogram[bucket_of(*moment - c->sent[c->answered++ % depth])]++;
        count++;
    }
    return count;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return fprintf(stderr, "usage: load SOCKET CONNECTIONS DEPTH SECONDS LINE\n"), 2;
    unsigned connections = (unsigned)strtoul(argv[2], NULL, 10);
    depth = strtoull(argv[3], NULL, 10);
    line_bytes = strlen(argv[5]) + 1;
    if (!connections || !depth || depth * line_bytes > WRITE_BYTES)
        fail("connections or depth");
    lines = malloc(depth * line_bytes);
    struct connection *all = calloc(connections, sizeof *all);
    int queue = epoll_create1(EPOLL_CLOEXEC);
    if (!lines || !all || queue < 0)
        fail("start");
    for (uint64_t i = 0; i < depth; i++) {
        memcpy(lines + i * line_bytes, argv[5], line_bytes - 1);
        lines[(i + 1) * line_bytes - 1] = '\n';
    }
    for (unsigned i = 0; i < connections; i++) {
        struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = &all[i]};
        all[i].fd = connected(argv[1]);
        all[i].sent = calloc(depth, sizeof *all[i].sent);
        if (!all[i].sent || epoll_ctl(queue, EPOLL_CTL_ADD, all[i].fd, &wanted))
            fail("connection");
    }
    uint64_t began = now(), until = began + (uint64_t)(atof(argv[4]) * 1e9), moment = began;
    uint64_t waiting = connections * depth, total = 0;
    for (unsigned i = 0; i < connections; i++)
        ask(&all[i], depth, now());
    while (waiting) {
        struct epoll_event ready[EVENTS];
        int count = epoll_wait(queue, ready, EVENTS, 20000);
        if (count <= 0)
            fail("no answer for 20 s");
        for (int i = 0; i < count; i++) {
            struct connection *c = ready[i].data.ptr;
            uint64_t answers = take(c, &moment);
            total += answers;
            if (moment < until)
                ask(c, answers, moment);
            else
                waiting -= answers;
        }
    }
    printf("{\"requests\":%llu,\"seconds\":%.6f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f}\n",
           (unsigned long long)total, (double)(moment - began) / 1e9, percentile(0.5, total),
           percentile(0.99, total), percentile(0.999, total));
    return 0;
}
