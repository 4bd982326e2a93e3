package io.github.bursar.linkis.allocation;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.bursar.client.AllocateRequest;
import io.github.bursar.client.Allocation;
import io.github.bursar.client.AllocationState;
import io.github.bursar.client.BursarClient;
import io.github.bursar.client.BursarServer;
import io.github.bursar.client.ConfirmRequest;
import io.github.bursar.client.Phase;
import io.github.bursar.client.Resource;
import io.github.bursar.linkis.FakeBursar;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.linkis.common.exception.LinkisRetryException;
import org.apache.linkis.manager.common.entity.node.EngineNode;
import org.apache.linkis.manager.common.exception.RMErrorException;
import org.apache.linkis.manager.common.protocol.engine.EngineCreateRequest;
import org.apache.linkis.manager.label.entity.engine.EngineInstanceLabel;
import org.apache.linkis.manager.rm.AvailableResource;
import org.apache.linkis.manager.rm.ResultResource;
import org.apache.linkis.manager.rm.domain.RMLabelContainer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** When an engine runs, and when it is gone. */
@Timeout(120)
class ConfirmAndReleaseTest extends ManagerFixture {
  @Test
  void anEngineIsConfirmedByItsPidAndEndedWithItsProcess() throws Exception {
    Process process = new ProcessBuilder("sleep", "300").start();
    try {
      String ticket = granted("pid", 64);
      String pid = Long.toString(process.pid());
      agentConfirms(ticket, process);
      EngineInstanceLabel engine = linkis.started(ticket, host + ":17485", pid);
      manager.resourceUsed(with(labels("pid"), engine), used());
      assertEquals(process.pid(), allocation(ticket).pid());
      assertEquals(Phase.READY, allocation(ticket).phase());
      process.destroyForcibly().waitFor();
      for (int i = 0; !allocation(ticket).state().ended(); i++) {
        assertTrue(i < 200, "the agent does not see that it ended: " + allocation(ticket));
        Thread.sleep(100);
      }
      manager.resourceReleased(gone("pid", engine, pid)); // when Linkis notices
      assertFalse(linkis.resources.containsKey(FakeLinkis.value(engine)));
    } finally {
      process.destroyForcibly();
    }
  }

  /** An engine may say any pid. Only the agent, which sees the process, confirms by one. */
  @Test
  void aPidThatOnlyTheEngineTellsBindsNothing() throws Exception {
    Process another = new ProcessBuilder("sleep", "300").start();
    try {
      String ticket = granted("liar", 64);
      EngineInstanceLabel engine = linkis.started(ticket, host + ":17485", Long.toString(another.pid()));
      manager.resourceUsed(with(labels("liar"), engine), used());
      Allocation a = allocation(ticket);
      assertEquals(0, a.pid());
      assertEquals(Phase.READY, a.phase());
      assertTrue(a.expireTime().isPresent());
      manager.resourceReleased(gone("liar", engine, Long.toString(another.pid())));
      assertEquals(AllocationState.RELEASED, allocation(ticket).state());
      assertTrue(another.isAlive());
    } finally {
      another.destroyForcibly();
    }
  }

  /** As when three creations get the same port: the row of the one that fails has no identifier. */
  @Test
  void anEngineThatLinkisClearsBeforeItKnowsItsPidIsEnded() throws Exception {
    Process process = new ProcessBuilder("sleep", "300").start();
    try {
      String ticket = granted("clash", 64);
      agentConfirms(ticket, process);
      manager.resourceReleased(gone("clash", FakeLinkis.label(ticket), null));
      assertTrue(process.waitFor(20, TimeUnit.SECONDS), "it lives on without an allocation");
      for (int i = 0; !allocation(ticket).state().ended(); i++) {
        assertTrue(i < 100, allocation(ticket).toString());
        Thread.sleep(100);
      }
    } finally {
      process.destroyForcibly();
    }
  }

  /** Linkis swallows what is thrown here, and forgets the engine. */
  @Test
  void anEngineWhoseRowCannotBeReadIsReleasedByTheTicketOfItsNode() {
    String ticket = granted("unread", 64);
    EngineInstanceLabel engine = linkis.started(ticket, host + ":17485", null);
    manager.resourceUsed(with(labels("unread"), engine), used());
    linkis.readFails = new IllegalStateException("database");
    EngineNode node = gone("unread", engine, null);
    assertThrows(IllegalStateException.class, () -> manager.resourceReleased(node));
    assertEquals(AllocationState.ACTIVE, allocation(ticket).state(), "nobody knows its ticket");
    node.setTicketId(ticket);
    assertThrows(IllegalStateException.class, () -> manager.resourceReleased(node));
    assertEquals(AllocationState.RELEASED, allocation(ticket).state());
  }

  @Test
  void bursarAwayIsARetryExceptionAndReleasesAreMadeUp() throws Exception {
    try (BursarServer own = BursarServer.dev();
        BursarClient client = BursarClient.builder().urls(own.url()).callTimeout(Duration.ofSeconds(1)).build()) {
      while (client.allHosts().items().isEmpty()) {
        Thread.sleep(50);
      }
      manager.destroy();
      manager = manager(client, Map.of());
      ResultResource r = null;
      for (int i = 0; i < 50 && !(r instanceof AvailableResource); i++, Thread.sleep(100)) {
        r = manager.requestResource(labels("away"), asks(64, 1), new EngineCreateRequest(), 0);
      }
      String ticket = assertInstanceOf(AvailableResource.class, r).ticketId();
      own.kill();
      LinkisRetryException e =
          assertThrows(
              LinkisRetryException.class, () -> manager.requestResource(labels("away"), asks(64, 1), new EngineCreateRequest(), 0));
      assertTrue(e.getMessage().contains("Bursar") && e.getMessage().contains(own.url()), e.getMessage());
      assertThrows(LinkisRetryException.class, () -> manager.canRequestResource(labels("away"), asks(64, 1), new EngineCreateRequest()));

      Releases soon = new Releases(client, Duration.ofMillis(300));
      soon.release(ticket, "gone"); // does not throw
      assertEquals(1, soon.waiting());
      own.start();
      for (int i = 0; client.get(ticket).filter(a -> a.state().ended()).isEmpty(); i++) {
        assertTrue(i < 100);
        Thread.sleep(100);
      }
      soon.close();
    }
  }

  /** Threads that clear engines are Linkis's own. */
  @Test
  void releasesHoldNobodyUpWhileBursarIsAway() throws Exception {
    try (FakeBursar away = new FakeBursar();
        BursarClient client = away.client(Duration.ofSeconds(12));
        Releases releases = new Releases(client)) {
      away.down = true;
      long begin = System.nanoTime();
      for (int i = 0; i < 100; i++) {
        releases.release("ticket-" + i, "gone");
      }
      long took = Duration.ofNanos(System.nanoTime() - begin).toMillis();
      assertTrue(took < 5000, took + " ms");
      assertEquals(100, releases.waiting());
    }
  }

  /** Shadow has booked it by stock's ticket as the id of its request. */
  @Test
  void anEngineFromShadowIsReleased() {
    String stock = "8d7c2f6e-5d7e-4a38-9f0c-0d4f2f7f9a11";
    Allocation booked =
        bursar.allocate(AllocateRequest.builder().requestId(stock).label("user", "shadow").resource(Resource.builder().memoryBytes(MIB).build()).build());
    bursar.confirm(ConfirmRequest.builder(booked.id()).address("h:1").lease(Duration.ofHours(1)).build());
    try (Releases releases = new Releases(bursar)) {
      releases.release(stock, "gone");
      assertEquals(AllocationState.RELEASED, allocation(booked.id()).state());
      releases.release(stock, "gone"); // twice is fine
      releases.release("8d7c2f6e-5d7e-4a38-9f0c-000000000000", "was never booked");
      assertEquals(0, releases.waiting());
    }
  }

  /** Bursar does not take the confirmation, and the reservation is as it was: nothing runs on it. */
  @Test
  void aReservationThatCannotBeConfirmedIsNoEngine() throws Exception {
    try (FakeBursar fake = new FakeBursar();
        BursarClient client = fake.client()) {
      manager.destroy();
      manager = manager(client, Map.of());
      fake.allocation("t1", "RESERVED", "");
      linkis.rows().granted(new RMLabelContainer(labels("zoe")), "t1", locked());
      EngineInstanceLabel engine = linkis.started("t1", host + ":17485", null);
      assertThrows(RMErrorException.class, () -> manager.resourceUsed(with(labels("zoe"), engine), used()));
      fake.allocation("t1", "ACTIVE", "'pid':7");
      manager.resourceUsed(with(labels("zoe"), engine), used());
    }
  }

  @Test
  void anEngineWithoutAnAllocationIsNotConfirmed() {
    String ticket = granted("late", 64);
    EngineInstanceLabel engine = linkis.started(ticket, host + ":17485", null);
    bursar.cancel(ticket, "expired, let us say");
    RMErrorException e = assertThrows(RMErrorException.class, () -> manager.resourceUsed(with(labels("late"), engine), used()));
    assertTrue(e.getMessage().contains("has no resources on Bursar"), e.getMessage());
    assertThrows(RMErrorException.class, () -> manager.resourceUsed(labels("late"), used()));
  }
}
