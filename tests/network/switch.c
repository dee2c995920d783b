// A network of hosts in user space: what the kernel's netem would do, where there is none.
//
//   switch DELAY_US LOSS_PER_MILLE MTU RATE_MBIT:NAMESPACE...
//
// makes a tun device `eth0` with the address 10.77.0.<i> in the i-th network namespace (a path
// such as /proc/PID/ns/net) and carries IPv4 packets between them. Each host sends and receives
// at its rate (0: without limit); a packet arrives DELAY_US after it has left; a share of all
// packets is lost, the same ones in every run. It says "ready" when the hosts can talk.
//
// Commands on standard input, one a line: "cut I" loses everything to and from host I from now
// on, "heal I" ends that. The end of standard input ends the program, and with it the devices.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kMaxHosts = 32, kQueue = 16384, kMaxPacket = 65536, kReadsPerTurn = 64 };

// What waits longer than this for its turn on a link is lost, as in a router.
static const double kLongestQueue = 0.05;

struct packet {
  unsigned char* data;
  ssize_t size;
  double due;
};

struct host {
  int device;
  double bytes_per_second;  // 0: without limit
  double sends_until;       // when the link from the host is free again
  double receives_until;    // when the link to it is
  int cut;
  struct packet queue[kQueue];  // for the host, in order of their arrival
  unsigned first, end;
};

static struct host hosts[kMaxHosts];
static int host_count;
static double delay;
static unsigned loss_per_mille;
static unsigned random_state = 1;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void die(const char* what) {
  perror(what);
  exit(1);
}

static int lost(void) {
  random_state = random_state * 1664525u + 1013904223u;
  return (random_state >> 16) % 1000 < loss_per_mille;
}

static int open_device(const char* namespace, int index, const char* mtu) {
  const int ns = open(namespace, O_RDONLY | O_CLOEXEC);
  if (ns < 0 || setns(ns, CLONE_NEWNET) != 0) die(namespace);
  close(ns);
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) die("/dev/net/tun");
  struct ifreq request;
  memset(&request, 0, sizeof(request));
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  strcpy(request.ifr_name, "eth0");
  if (ioctl(device, TUNSETIFF, &request) != 0) die("TUNSETIFF");
  char command[200];
  snprintf(command, sizeof(command),
           "ip address add 10.77.0.%d/24 dev eth0 && ip link set eth0 mtu %s txqueuelen 4000 up",
           index + 1, mtu);
  if (system(command) != 0) exit(1);
  return device;
}

// When the last bit of a packet is through a link that is busy until *until.
static double pass(double* until, double from, ssize_t size, double bytes_per_second) {
  if (bytes_per_second == 0) return from;
  if (*until < from) *until = from;
  *until += (double)size / bytes_per_second;
  return *until;
}

static void carry(struct host* from, const unsigned char* data, ssize_t size) {
  if (size < 20 || data[0] >> 4 != 4) return;
  const int target = data[19] - 1;
  if (target < 0 || target >= host_count) return;
  struct host* to = &hosts[target];
  const double time = now();
  if (from->cut || to->cut || lost()) return;
  if (from->sends_until - time > kLongestQueue || to->receives_until - time > kLongestQueue ||
      to->end - to->first == kQueue) {
    return;
  }
  const double sent = pass(&from->sends_until, time, size, from->bytes_per_second);
  // The two links are joined: the second one has begun while the first was still busy.
  const double begun =
      to->bytes_per_second > 0 ? sent - (double)size / to->bytes_per_second : sent;
  struct packet* packet = &to->queue[to->end++ % kQueue];
  packet->due = pass(&to->receives_until, begun, size, to->bytes_per_second) + delay;
  packet->size = size;
  packet->data = malloc((size_t)size);
  if (packet->data == NULL) die("malloc");
  memcpy(packet->data, data, (size_t)size);
}

// Hands over what is due; the time of the next one.
static double deliver(struct host* host, double time) {
  while (host->first != host->end) {
    struct packet* packet = &host->queue[host->first % kQueue];
    if (packet->due > time) return packet->due;
    // A full device drops it, as hardware does.
    if (!host->cut && write(host->device, packet->data, (size_t)packet->size) < 0) errno = 0;
    free(packet->data);
    ++host->first;
  }
  return time + 1;
}

static void obey(void) {
  static char line[100];
  static size_t length;
  const ssize_t got = read(0, line + length, sizeof(line) - 1 - length);
  if (got <= 0) exit(0);
  length += (size_t)got;
  line[length] = 0;
  char* end;
  while ((end = strchr(line, '\n')) != NULL) {
    int index;
    char verb[8];
    if (sscanf(line, "%7s %d", verb, &index) == 2 && index >= 0 && index < host_count) {
      hosts[index].cut = strcmp(verb, "cut") == 0;
      puts("done");
      fflush(stdout);
    }
    length -= (size_t)(end + 1 - line);
    memmove(line, end + 1, length + 1);
  }
}

int main(int count, char** arguments) {
  if (count < 6 || count - 4 > kMaxHosts) return 2;
  delay = atof(arguments[1]) * 1e-6;
  loss_per_mille = (unsigned)atoi(arguments[2]);
  struct pollfd polled[kMaxHosts + 1];
  for (int i = 4; i < count; ++i) {
    struct host* host = &hosts[host_count];
    host->bytes_per_second = atof(arguments[i]) * 1e6 / 8;
    host->device = open_device(strchr(arguments[i], ':') + 1, host_count, arguments[3]);
    polled[host_count].fd = host->device;
    polled[host_count++].events = POLLIN;
  }
  polled[host_count].fd = 0;
  polled[host_count].events = POLLIN;
  puts("ready");
  fflush(stdout);
  static unsigned char buffer[kMaxPacket];
  while (1) {
    const double time = now();
    double next = time + 1;
    for (int i = 0; i < host_count; ++i) {
      const double due = deliver(&hosts[i], time);
      if (due < next) next = due;
    }
    const double left = next - now();
    const struct timespec wait = {0, left <= 0 ? 0 : left > 0.5 ? 500000000 : (long)(left * 1e9)};
    if (ppoll(polled, (nfds_t)host_count + 1, &wait, NULL) <= 0) continue;
    if (polled[host_count].revents != 0) obey();
    for (int i = 0; i < host_count; ++i) {
      if ((polled[i].revents & POLLIN) == 0) continue;
      for (int reads = 0; reads < kReadsPerTurn; ++reads) {
        const ssize_t size = read(hosts[i].device, buffer, sizeof(buffer));
        if (size <= 0) break;
        carry(&hosts[i], buffer, size);
      }
    }
  }
}
