/* Tests whether the path through the code depends on a secret: single-steps two calls whose secrets differ in every bit
 * and compares a hash of every instruction's address. Prints how many instructions a call had and "same" or
 * "different"; "control" is a function that does branch on its secret. Prints "forbidden" if the system does not let a
 * process step itself, and "slow" if that takes longer than three minutes.
 *
 * The process sets its own trap flag and counts in the signal's handler, which costs a tenth of stepping it from another
 * process. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "multibuffer.h"

enum { COUNT = 3 };

static uint8_t secret[32], point[32 * COUNT], key[16 * COUNT], nonce[12 * COUNT], exporter[32 * COUNT];
static uint8_t public_key[32], flags[COUNT], suite[10], context[65];
static volatile int counter;
static int level; /* the instruction set */

static void control(void)
{
    if (secret[0] & 1)
        counter++;
}

static void open_messages(void)
{
    if (tacit_hpke_open(level, secret, 32, public_key, 32, suite, 10, context, 65, 16, COUNT, point, sizeof point, key,
                        sizeof key, nonce, sizeof nonce, exporter, sizeof exporter, flags, sizeof flags))
        abort();
}

static volatile sig_atomic_t stepping;
static unsigned long long steps, hash;

enum { TRAP_FLAG = 0x100 };

/* The processor raises this signal after every instruction while the flag is set. */
static void stepped(int number, siginfo_t *information, void *interrupted)
{
    greg_t *registers = ((ucontext_t *)interrupted)->uc_mcontext.gregs;
    (void)number, (void)information;
    if (!stepping) {
        registers[REG_EFL] &= ~(greg_t)TRAP_FLAG;
        return;
    }
    hash = (hash ^ (unsigned long long)registers[REG_RIP]) * 1099511628211u;
    steps++;
}

static void too_slow(int number)
{
    static const char verdict[] = "slow\n";
    (void)number;
    _exit(write(1, verdict, sizeof verdict - 1) < 0);
}

static unsigned long long path(void (*function)(void), int byte)
{
    memset(secret, byte, sizeof secret);
    function(); /* the first call binds symbols and pages everything in */
    hash = 14695981039346656037u;
    steps = 0;
    stepping = 1;
    __asm__ volatile("subq $128, %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\taddq $128, %%rsp" ::: "cc", "memory");
    function();
    stepping = 0;
    return hash;
}

static void compare(const char *name, void (*function)(void))
{
    unsigned long long zeros = path(function, 0), count = steps, ones = path(function, 0xff);
    printf("%s %llu %s\n", name, count, zeros == ones && steps == count ? "same" : "different");
}

int main(int count, char **arguments)
{
    level = count == 2 ? atoi(arguments[1]) : TACIT_LEVELS;
    if (!tacit_multibuffer_usable(level)) {
        puts("absent");
        return 0;
    }
    for (size_t i = 0; i < sizeof point; i++)
        point[i] = (uint8_t)(i * 37 + 5);
    memset(point + 32, 0, 32);
    public_key[0] = 9;
    struct sigaction action = {.sa_sigaction = stepped, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    signal(SIGALRM, too_slow);
    alarm(180);
    path(control, 0);
    if (!steps) {
        puts("forbidden");
        return 0;
    }
    compare("control", control);
    compare("open", open_messages);
    return 0;
}
