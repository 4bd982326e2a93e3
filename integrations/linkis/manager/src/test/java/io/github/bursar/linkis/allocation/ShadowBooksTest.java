package io.github.bursar.linkis.allocation;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.bursar.client.AllocateRequest;
import io.github.bursar.client.AllocationState;
import io.github.bursar.client.BursarClient;
import io.github.bursar.client.BursarServer;
import io.github.bursar.client.Quota;
import io.github.bursar.client.Resource;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.Map;
import java.util.function.BooleanSupplier;
import javax.management.ObjectName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class ShadowBooksTest {
  private static final long MIB = 1L << 20;

  private static AllocateRequest.Builder asked(long mib) {
    return AllocateRequest.builder().label("user", "alice").resource(Resource.builder().memoryBytes(mib * MIB).build());
  }

  private static void until(BooleanSupplier what) throws InterruptedException {
    for (int i = 0; !what.getAsBoolean(); i++) {
      assertTrue(i < 200, "it did not come to that");
      Thread.sleep(50);
    }
  }

  @Test
  void whatStockGrantsOverTheLimitIsCounted() throws Exception {
    try (BursarServer server = BursarServer.dev();
        BursarClient client = BursarClient.builder().urls(server.url()).build();
        ShadowBooks books = new ShadowBooks(client, Duration.ofMinutes(1))) {
      until(() -> !client.allHosts().items().isEmpty());
      client.putQuota(Quota.builder(Map.of("user", "alice")).limit(Resource.builder().memoryBytes(100 * MIB).build()).build(), false);
      ShadowReport report = books.report();
      until(
          () -> {
            // Until the host has measured, Bursar grants nothing.
            return client.explain(asked(64).build()).verdict() == io.github.bursar.client.Explanation.Verdict.FITS;
          });
      books.granted("ticket-1", asked(64), null);
      until(() -> report.getBothGrant() == 1);
      books.granted("ticket-2", asked(64), null);
      until(() -> report.getStockAloneGrants() == 1);
      books.refused("why not", asked(64), null);
      until(() -> report.getBothRefuse() == 1);
      books.used("ticket-1", "h:1", 0);
      until(() -> client.getByRequestId("ticket-1").get().state() == AllocationState.ACTIVE);
      books.used("ticket-2", "h:2", 0);
      books.released("ticket-2");
      books.released("ticket-1");
      until(() -> client.getByRequestId("ticket-1").get().state() == AllocationState.RELEASED);
      books.refused("why not", asked(64), null);
      until(() -> report.getBursarAloneGrants() == 1);
      assertEquals(0, report.getNotCompared());
      report.publish();
      assertEquals(
          1L,
          java.lang.management.ManagementFactory.getPlatformMBeanServer()
              .getAttribute(new ObjectName("io.github.bursar:type=Shadow"), "StockAloneGrants"));
    }
  }

  @Test
  void whatUsersSayIsOneLineOfTheLog() {
    String said = ShadowReport.shown(Map.of("user", "alice\n2026-01-01 ERROR \u001b[31m\u202e" + "x".repeat(100_000)));
    assertTrue(said.startsWith("{user=alice?2026-01-01 ERROR ?[31m?x"), said);
    assertTrue(said.length() < 1100, said.length() + " characters");
  }

  @Test
  void aBursarThatHangsHoldsNobodyUp() throws Exception {
    try (ServerSocket hangs = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        BursarClient client = BursarClient.builder().urls("http://127.0.0.1:" + hangs.getLocalPort()).build();
        ShadowBooks books = new ShadowBooks(client, Duration.ofMinutes(1))) {
      long begin = System.nanoTime();
      for (int i = 0; i < 10_000; i++) {
        books.granted("ticket-" + i, asked(64), null);
        books.used("ticket-" + i, "h:1", 0);
        books.released("ticket-" + i);
      }
      long took = Duration.ofNanos(System.nanoTime() - begin).toMillis();
      assertTrue(took < 15_000, took + " ms"); // one call takes 3 s until it is given up
      assertTrue(books.report().getNotCompared() > 20_000, books.report().toString());
    }
  }
}
