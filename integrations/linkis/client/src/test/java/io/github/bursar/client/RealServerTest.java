package io.github.bursar.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.bursar.client.BursarException.Code;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Against a real coordinator. */
@Timeout(90)
class RealServerTest {
  private static final long MIB = 1L << 20;
  private static BursarServer server;
  private static BursarClient client;

  @BeforeAll
  static void start() throws Exception {
    server = BursarServer.dev();
    client = BursarClient.builder().urls("http://127.0.0.1:" + BursarServer.freePort(), server.url()).build();
    for (int i = 0; client.allHosts().items().isEmpty(); i++) {
      assertTrue(i < 100, "the host has not registered");
      Thread.sleep(100);
    }
  }

  @AfterAll
  static void stop() {
    client.close();
    server.close();
  }

  private static AllocateRequest.Builder request(String user, long mib) {
    return AllocateRequest.builder()
        .label("user", user)
        .label("creator", "IDE")
        .resource(Resource.builder().memoryBytes(mib * MIB).cpuMillis(10).build());
  }

  @Test
  void aLifeFromRequestToRelease() {
    Allocation a = client.allocate(request("life", 8).reservationTtl(Duration.ofMinutes(1)).build());
    assertEquals(AllocationState.RESERVED, a.state());
    assertEquals(8 * MIB, a.entitled().memoryBytes().getAsLong());
    assertEquals(1, a.entitled().instances().getAsLong());
    assertEquals(Map.of("user", "life", "creator", "IDE"), a.labels());

    Allocation c = client.confirm(ConfirmRequest.builder(a.id()).address("h:1").lease(Duration.ofMinutes(5)).build());
    assertEquals(AllocationState.ACTIVE, c.state());
    assertEquals("h:1", c.address());
    assertTrue(client.renew(a.id(), Duration.ofMinutes(10)).expireTime().get().isAfter(c.expireTime().get()));
    assertEquals(4 * MIB, client.resize(a.id(), Resource.builder().memoryBytes(4 * MIB).build()).entitled().memoryBytes().getAsLong());
    assertEquals(a.id(), client.getByRequestId(a.requestId()).get().id());

    assertEquals(AllocationState.RELEASED, client.release(a.id(), "done").get().state());
    assertEquals("done", client.get(a.id()).get().reason());
    assertTrue(client.release(a.id(), "again").isPresent(), "twice is fine");
    assertEquals(Optional.empty(), client.get("0000000000001"));
    BursarException late = assertThrows(BursarException.class, () -> client.confirm(ConfirmRequest.builder(a.id()).address("h:1").build()));
    assertEquals(Code.FAILED_PRECONDITION, late.code());
    assertFalse(late.retriable());
  }

  @Test
  void oneRequestIdIsOneAllocation() {
    AllocateRequest r = request("twice", 8).requestId("linkis-twice").build();
    Allocation a = client.allocate(r);
    assertEquals(a.id(), client.allocate(r).id());
    BursarException other = assertThrows(BursarException.class, () -> client.allocate(request("twice", 9).requestId("linkis-twice").build()));
    assertEquals(Code.ALREADY_EXISTS, other.code());
    client.cancel(a.id(), "");
  }

  @Test
  void aRefusalHasReasonAndNumbers() {
    client.putQuota(Quota.builder(Map.of("user", "poor")).limit(Resource.builder().memoryBytes(10 * MIB).build()).build(), false);
    BursarException never = assertThrows(BursarException.class, () -> client.allocate(request("poor", 11).build()));
    Refusal r = never.refusal().get();
    assertTrue(r.never());
    assertFalse(never.retriable());
    assertEquals("memory", r.shortfalls().get(0).dimension());
    assertEquals(11 * MIB, r.shortfalls().get(0).requested());
    assertEquals(10 * MIB, r.shortfalls().get(0).limit());
    assertEquals("quota user=poor", r.shortfalls().get(0).account().toString());

    Allocation a = client.allocate(request("poor", 8).build());
    long begin = System.nanoTime();
    BursarException later = assertThrows(BursarException.class, () -> client.allocate(request("poor", 8).waitTime(Duration.ofSeconds(1)).build()));
    assertTrue(System.nanoTime() - begin >= Duration.ofMillis(900).toNanos());
    assertFalse(later.refusal().get().never());
    assertTrue(later.retriable());
    assertEquals("waited", later.refusal().get().reason());
    assertEquals(Explanation.Verdict.WAITS, client.explain(request("poor", 8).build()).verdict());
    client.release(a.id(), "");
    assertEquals(Explanation.Verdict.FITS, client.explain(request("poor", 8).build()).verdict());
  }

  @Test
  void aWaitLongerThanAnAttemptKeepsItsPlaceAndIsGranted() throws Exception {
    client.putQuota(Quota.builder(Map.of("user", "patient")).limit(Resource.builder().memoryBytes(10 * MIB).build()).build(), false);
    Allocation a = client.allocate(request("patient", 8).build());
    try (BursarClient hasty = BursarClient.builder().urls(server.url()).attemptTimeout(Duration.ofMillis(700)).build()) {
      CompletableFuture<Allocation> waiting =
          CompletableFuture.supplyAsync(() -> hasty.allocate(request("patient", 8).waitTime(Duration.ofSeconds(30)).build()));
      Thread.sleep(3000);
      assertFalse(waiting.isDone());
      client.release(a.id(), "");
      Allocation b = waiting.get(10, TimeUnit.SECONDS);
      assertEquals(AllocationState.RESERVED, b.state());
      assertEquals(1, client.allAllocations(AllocationFilter.live().label("user", "patient")).items().size());
      client.release(b.id(), "");
    }
  }

  @Test
  void wrongFieldsAreNamed() {
    BursarException e = assertThrows(BursarException.class, () -> client.allocate(request("x", 1).reservationTtl(Duration.ofMillis(1)).build()));
    assertEquals(Code.INVALID_ARGUMENT, e.code());
    assertEquals("reservation_ttl", e.fieldViolations().get(0).field());
    BursarException user = assertThrows(BursarException.class, () -> client.allocate(request("", 1).build()));
    assertEquals("labels[user]", user.fieldViolations().get(0).field());
  }

  @Test
  void aQueueOfAClusterThatIsNotConfiguredIsSaidToBeThat() {
    assertEquals(List.of(), client.providers());
    BursarException e = assertThrows(BursarException.class, () -> client.queue("yarn", "", "root.q"));
    assertEquals(Code.INVALID_ARGUMENT, e.code());
    assertTrue(e.getMessage().contains("yarn"), e.getMessage());
  }

  @Test
  void listsHavePagesAndFilters() {
    for (int i = 0; i < 5; i++) {
      client.allocate(request("many", 1).build());
    }
    AllocationFilter many = AllocationFilter.live().label("user", "many").pageSize(2);
    assertEquals(2, client.allocations(many, "").items().size());
    List<Allocation> all = client.allAllocations(many).items();
    assertEquals(5, all.stream().map(Allocation::id).distinct().count());
    assertEquals(0, client.allAllocations(many.state(AllocationState.ACTIVE)).items().size());
    Instant before = Instant.now().minusSeconds(60);
    all.forEach(a -> client.cancel(a.id(), ""));
    assertEquals(5, client.allAllocations(AllocationFilter.endedSince(before).label("user", "many")).items().size());

    HostInfo h = client.allHosts().items().get(0);
    assertEquals(h.id(), client.host(h.id()).get().id());
    assertEquals(HostInfo.State.HEALTHY, h.state());
    assertTrue(h.account().limit().memoryBytes().isPresent());
    assertTrue(h.memoryTotalBytes().isPresent());
    assertEquals(Optional.empty(), client.host("no-such-host"));
  }

  @Test
  void aSetOfRulesIsAppliedInOneStep() {
    Quota a = Quota.builder(Map.of("user", "q1", "creator", "*")).limit(Resource.builder().memoryBytes(MIB).instances(2).build()).weight(3).build();
    Quota b = Quota.builder(Map.of("user", "q2", "creator", "*")).limit(Resource.builder().cpuMillis(1000).build()).build();
    assertEquals(2, client.applyQuotas("java", List.of(a, b), true, true, false).added().size());
    assertFalse(client.allQuotas().quotas().contains(a), "a dry run changes nothing");
    client.applyQuotas("java", List.of(a, b), true, false, false);
    assertTrue(client.allQuotas().quotas().containsAll(List.of(a, b)));
    assertEquals("java", client.allQuotas().quotas().stream().filter(a::equals).findFirst().get().source());
    assertEquals(1, client.applyQuotas("java", List.of(a), true, false, false).deleted().size());
    assertTrue(client.deleteQuota(a.selector()));
    assertFalse(client.deleteQuota(a.selector()));
  }

  @Test
  void aWatchTellsOfEndsAlsoAcrossARestart() throws Exception {
    BlockingQueue<Allocation> seen = new LinkedBlockingQueue<>();
    try (BursarServer own = BursarServer.dev();
        BursarClient c = BursarClient.builder().urls(own.url()).build();
        AllocationWatch watch =
            c.watch(
                0,
                new AllocationWatch.Listener() {
                  @Override
                  public void onTransition(Allocation a, long revision) {
                    seen.add(a);
                  }

                  @Override
                  public long onGap() {
                    return 0;
                  }
                })) {
      for (int i = 0; i < 100 && c.allHosts().items().isEmpty(); i++) {
        Thread.sleep(100);
      }
      Allocation a = granted(c, "watch");
      await(seen, a.id(), AllocationState.RESERVED);
      own.kill();
      own.start();
      c.release(a.id(), "gone");
      await(seen, a.id(), AllocationState.RELEASED);
    }
  }

  private static Allocation granted(BursarClient c, String user) {
    return c.allocate(request(user, 1).waitTime(Duration.ofSeconds(20)).build());
  }

  private static void await(BlockingQueue<Allocation> seen, String id, AllocationState state) throws InterruptedException {
    for (Allocation a = seen.poll(20, TimeUnit.SECONDS); ; a = seen.poll(20, TimeUnit.SECONDS)) {
      assertTrue(a != null, "no " + state);
      if (a.id().equals(id) && a.state() == state) {
        return;
      }
    }
  }

  @Test
  void aRestartIsADelayAndGrantsOnce() throws Exception {
    try (BursarServer own = BursarServer.dev();
        BursarClient c = BursarClient.builder().urls(own.url()).callTimeout(Duration.ofSeconds(30)).build()) {
      granted(c, "before");
      own.kill();
      CompletableFuture<Allocation> during = CompletableFuture.supplyAsync(() -> granted(c, "during"));
      Thread.sleep(1000);
      assertFalse(during.isDone());
      own.start();
      assertEquals(AllocationState.RESERVED, during.get(30, TimeUnit.SECONDS).state());
      assertEquals(1, c.allAllocations(AllocationFilter.live().label("user", "during")).items().size());
    }
  }

  @Test
  void tlsWithItsOwnCaAndATokenThatChanges(@TempDir Path dir) throws Exception {
    String subject = "/CN=127.0.0.1";
    BursarServer.run(List.of("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
        "-keyout", dir.resolve("key.pem").toString(), "-out", dir.resolve("cert.pem").toString(), "-subj", subject,
        "-addext", "subjectAltName=IP:127.0.0.1"));
    token(dir, "one");
    token(dir, "two");
    try (BursarServer tls = BursarServer.coordinator(dir)) {
      Path token = dir.resolve("token");
      Files.copy(dir.resolve("one.token"), token);
      try (BursarClient c = BursarClient.builder().urls(tls.url()).tlsCa(dir.resolve("cert.pem")).tokenFile(token).build()) {
        assertEquals(List.of(), c.allHosts().items());
        String identities = Files.readString(dir.resolve("identities.yaml"));
        int at = identities.indexOf("- name: one");
        int next = identities.indexOf("- name: two");
        assertTrue(at >= 0 && next > at, identities);
        Files.writeString(dir.resolve("identities.yaml"), identities.substring(0, at) + identities.substring(next));
        Instant end = Instant.now().plusSeconds(20);
        Code code = null;
        while (code != Code.UNAUTHENTICATED && Instant.now().isBefore(end)) {
          Thread.sleep(200);
          try {
            c.allHosts();
          } catch (BursarException e) {
            code = e.code();
          }
        }
        assertEquals(Code.UNAUTHENTICATED, code);
        Files.write(token, Files.readAllBytes(dir.resolve("two.token")));
        assertEquals(List.of(), c.allHosts().items());
      }
      try (BursarClient distrusts = BursarClient.builder().urls(tls.url()).callTimeout(Duration.ofSeconds(1)).build()) {
        BursarException e = assertThrows(BursarException.class, distrusts::allHosts);
        assertTrue(e.getMessage().contains("certificate"), e.getMessage());
      }
    }
  }

  private static void token(Path dir, String name) {
    BursarServer.run(List.of(BursarServer.binary(), "token", "create", "--name", name, "--role", "admin",
        "--identities", dir.resolve("identities.yaml").toString(), "--out", dir.resolve(name + ".token").toString()));
  }
}
