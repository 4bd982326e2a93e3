package io.github.bursar.linkis.projection;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.bursar.client.AllocateRequest;
import io.github.bursar.client.Allocation;
import io.github.bursar.client.BursarClient;
import io.github.bursar.client.BursarException;
import io.github.bursar.client.ConfirmRequest;
import io.github.bursar.client.Resource;
import io.github.bursar.linkis.FakeBursar;
import io.github.bursar.linkis.RealBursar;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class EndedWatcherTest {
  private FakeBursar bursar;
  private BursarClient client;
  private LedgerView ledger;
  private EndedWatcher watcher;
  private long nanos;
  private final Engines engines = new Engines();
  private final List<Runnable> work = new ArrayList<>();

  /** Engines of Linkis in memory. */
  private static final class Engines extends LinkisEngines {
    final Set<String> tickets = new HashSet<>();
    final Set<String> recorded = new HashSet<>();
    final List<String> ended = new ArrayList<>();
    boolean broken;

    Engines() {
      super(null, null, null, null, null, null, null);
    }

    @Override
    boolean has(String ticket) {
      return tickets.contains(ticket);
    }

    @Override
    boolean wasOurs(String ticket) {
      return recorded.contains(ticket);
    }

    @Override
    Ended end(String ticket, boolean processEnded, boolean byPid, boolean well) {
      ended.add(ticket + (processEnded ? " cleared" : " stopped") + (well ? " well" : ""));
      if (broken) {
        throw new IllegalStateException("no database");
      }
      return tickets.remove(ticket) ? Ended.CLEARED : Ended.GONE;
    }
  }

  @BeforeEach
  void start() throws Exception {
    bursar = new FakeBursar();
    client = bursar.client();
    ledger = new LedgerView(client);
    watcher = new EndedWatcher(engines, client, Runnable::run, () -> nanos);
  }

  @AfterEach
  void stop() {
    client.close();
    bursar.close();
  }

  private void engine(String ticket) {
    engines.tickets.add(ticket);
    engines.recorded.add(ticket);
  }

  private void compare() {
    watcher.compare(new HashSet<>(engines.tickets), ledger.live());
  }

  private void pass(Duration time) {
    nanos += time.toNanos();
  }

  @Test
  void anEngineWhoseProcessHasEndedIsClearedAndNotKilled() {
    engine("A1");
    engine("A2");
    engine("A3");
    bursar.allocation("A1", "ACTIVE", "'process':{'pid':11}");
    bursar.allocation("A2", "ACTIVE", "'process':{'pid':12}");
    bursar.allocation("A3", "ACTIVE", "'process':{'pid':13}");
    compare();
    assertEquals(List.of(), engines.ended);
    bursar.allocation("A1", "RELEASED", "'process':{'pid':11},'reason':'process ended'");
    bursar.allocation("A2", "RELEASED", "'process':{'pid':12},'exitStatus':{'code':0}");
    compare();
    compare();
    assertEquals(Set.of("A1 cleared", "A2 cleared well"), new HashSet<>(engines.ended));
    assertEquals(2, engines.ended.size(), "each once");
    assertEquals(Set.of("A3"), engines.tickets);
  }

  @Test
  void anEngineThatMayStillRunIsStopped() {
    for (String state : new String[] {"EXPIRED", "CANCELED", "LOST"}) {
      engine(state);
      bursar.allocation(state, state, state.equals("LOST") ? "'process':{'pid':11}" : "");
    }
    engine("lease");
    bursar.allocation("lease", "RELEASED", "");
    engine("by hand"); // bursar release ID: nobody says that the process has ended
    bursar.allocation("by hand", "RELEASED", "'process':{'pid':12},'reason':'released by admin'");
    compare();
    assertEquals(
        Set.of("EXPIRED stopped", "CANCELED stopped", "LOST stopped", "lease stopped", "by hand stopped"),
        new HashSet<>(engines.ended));
  }

  @Test
  void anAgentsReasonSaysThatTheProcessHasEnded() {
    for (String reason : new String[] {"process ended", "its process ended", "host rebooted", "stopped", "stopped: over-use"}) {
      engine(reason);
      bursar.allocation(reason, "RELEASED", "'process':{'pid':11},'reason':'" + reason + "'");
    }
    engine("killed");
    bursar.allocation("killed", "RELEASED", "'process':{'pid':11},'exitStatus':{'signal':9}");
    compare();
    assertEquals(6, engines.ended.size());
    engines.ended.forEach(e -> assertTrue(e.endsWith(" cleared"), e));
  }

  /** With a real agent: what it says of a process that has ended, and of one that has not. */
  @Test
  void aRealAgentSaysWhetherTheProcessHasEnded() throws Exception {
    Process ends = new ProcessBuilder("sleep", "300").start();
    Process runs = new ProcessBuilder("sleep", "300").start();
    try (RealBursar real = new RealBursar(); BursarClient user = real.client()) {
      String host = user.allHosts().items().get(0).id();
      String[] ids = new String[2];
      for (int i = 0; i < 2; i++) {
        Allocation a = user.allocate(AllocateRequest.builder()
            .label("user", "alice").host(host).resource(Resource.builder().memoryBytes(1 << 20).build()).build());
        ids[i] = a.id();
        user.confirm(ConfirmRequest.builder(a.id()).pid((int) (i == 0 ? ends : runs).pid()).build());
      }
      user.release(ids[1], "by hand");
      assertFalse(EndedWatcher.processEnded(user.get(ids[1]).get()));
      ends.destroyForcibly();
      long end = System.nanoTime() + Duration.ofSeconds(30).toNanos();
      while (!user.get(ids[0]).get().state().ended()) {
        assertTrue(System.nanoTime() < end, "its agent has not noticed");
        Thread.sleep(50);
      }
      assertTrue(EndedWatcher.processEnded(user.get(ids[0]).get()), user.get(ids[0]).get().reason());
      assertTrue(runs.isAlive());
    } finally {
      ends.destroyForcibly();
      runs.destroyForcibly();
    }
  }

  @Test
  void oneThatIsRefusedDoesNotKeepTheOthersFromIt() {
    for (String id : new String[] {"A1", "A2", "A3"}) {
      engine("ended" + id);
      bursar.allocation("ended" + id, "EXPIRED", "");
      engine("lease" + id);
      bursar.allocation("lease" + id, "ACTIVE", "'expireTime':'" + Instant.now().plusSeconds(900) + "'");
      engines.recorded.add("cleared" + id);
      bursar.allocation("cleared" + id, "ACTIVE", "'process':{'pid':11}");
    }
    bursar.denied.addAll(Set.of("endedA1", "leaseA1", "clearedA1"));
    bursar.denied.add("endedA1");
    compare();
    assertEquals(Set.of("endedA2 stopped", "endedA3 stopped"), new HashSet<>(engines.ended));
    for (String id : new String[] {"A1", "A2", "A3"}) {
      bursar.allocation("lease" + id, "ACTIVE", "'expireTime':'" + Instant.now().plusSeconds(300) + "'");
    }
    pass(Duration.ofSeconds(16));
    bursar.calls.clear();
    compare();
    for (String id : new String[] {"A2", "A3"}) {
      assertEquals(1, bursar.count("AllocationService/Renew lease" + id));
      assertEquals(1, bursar.count("AllocationService/Stop cleared" + id));
    }
    int renewed = lastOf("AllocationService/Renew");
    int given = bursar.calls.indexOf("AllocationService/Stop clearedA2");
    assertTrue(renewed < given, "leases are renewed first: " + bursar.calls);
  }

  private int lastOf(String call) {
    int last = -1;
    for (int i = 0; i < bursar.calls.size(); i++) {
      last = bursar.calls.get(i).startsWith(call) ? i : last;
    }
    return last;
  }

  @Test
  void anEngineWhoseRowComesWhileEnginesAreComparedKeepsItsAllocation() {
    engines.recorded.add("A1");
    bursar.allocation("A1", "RESERVED", "");
    compare();
    pass(Duration.ofSeconds(20));
    Set<String> read = new HashSet<>(engines.tickets);
    engine("A1");
    watcher.compare(read, ledger.live());
    assertEquals(0, bursar.count("AllocationService/Release"));
  }

  @Test
  void enginesThatBursarDoesNotKnowAreLeftAlone() {
    engine("A1");
    engine("2c5f0b6e-7d0c-4f0e-9f3a-0a7c1d7a9b11"); // a ticket of stock Linkis
    compare();
    pass(Duration.ofMinutes(5));
    compare();
    assertEquals(List.of(), engines.ended);
    assertEquals(4, bursar.count("AllocationService/Get"));
    compare(); // not asked each time
    assertEquals(4, bursar.count("AllocationService/Get"));
  }

  @Test
  void afterARestartWhatEndedMeanwhileIsEnded() {
    engine("A1");
    bursar.allocation("A1", "RELEASED", "'process':{'pid':11},'reason':'process ended'");
    new EndedWatcher(engines, client, Runnable::run, () -> nanos).compare(new HashSet<>(engines.tickets), new LedgerView(client).live());
    assertEquals(List.of("A1 cleared"), engines.ended);
  }

  @Test
  void whatCouldNotBeEndedIsTriedAgain() {
    engine("A1");
    bursar.allocation("A1", "RELEASED", "'process':{'pid':11},'reason':'process ended'");
    engines.broken = true;
    compare();
    compare();
    assertEquals(1, engines.ended.size());
    engines.broken = false;
    pass(Duration.ofSeconds(31));
    compare();
    assertEquals(2, engines.ended.size());
    assertEquals(Set.of(), engines.tickets);
  }

  @Test
  void anEngineThatIsBeingEndedIsNotEndedTwice() {
    watcher = new EndedWatcher(engines, client, work::add, () -> nanos);
    engine("A1");
    bursar.allocation("A1", "EXPIRED", "");
    compare();
    pass(Duration.ofMinutes(2));
    compare();
    assertEquals(1, work.size());
  }

  @Test
  void anEngineThatLinkisHasClearedIsGivenBackByItsAgentIfItHasAProcess() {
    engines.recorded.addAll(Set.of("A1", "A2"));
    bursar.allocation("A1", "ACTIVE", "'process':{'pid':11}");
    bursar.allocation("A2", "RESERVED", "");
    bursar.allocation("A3", "ACTIVE", "'process':{'pid':13}"); // not made by Linkis
    compare();
    pass(Duration.ofSeconds(14));
    compare();
    assertEquals(0, bursar.count("AllocationService/Stop") + bursar.count("AllocationService/Release"));
    pass(Duration.ofSeconds(2));
    compare();
    compare();
    assertEquals(1, bursar.count("AllocationService/Stop A1"));
    assertEquals(1, bursar.count("AllocationService/Release A2"));
    pass(Duration.ofHours(1));
    compare();
    assertEquals(0, bursar.count("AllocationService/Stop A3") + bursar.count("AllocationService/Release A3"));
  }

  @Test
  void anEngineWhoseRowComesLateKeepsItsAllocation() {
    bursar.allocation("A1", "RESERVED", "");
    compare();
    pass(Duration.ofSeconds(20));
    engine("A1");
    compare();
    pass(Duration.ofSeconds(20));
    compare();
    assertEquals(0, bursar.count("AllocationService/Release"));
  }

  @Test
  void aLeaseIsRenewedWhileLinkisHasTheEngine() {
    engine("A1");
    bursar.allocation("A1", "ACTIVE", "'expireTime':'" + Instant.now().plusSeconds(900) + "'");
    bursar.allocation("A2", "ACTIVE", "'expireTime':'" + Instant.now().plusSeconds(900) + "'");
    compare();
    assertEquals(0, bursar.count("AllocationService/Renew"));
    bursar.allocation("A1", "ACTIVE", "'expireTime':'" + Instant.now().plusSeconds(400) + "'");
    bursar.allocation("A2", "ACTIVE", "'expireTime':'" + Instant.now().plusSeconds(400) + "'");
    compare();
    compare();
    assertEquals(1, bursar.count("AllocationService/Renew A1"));
    assertEquals(0, bursar.count("AllocationService/Renew A2"));
  }

  @Test
  void whileBursarIsAwayNothingIsEnded() {
    engine("A1");
    bursar.allocation("A1", "ACTIVE", "'process':{'pid':11}");
    compare();
    bursar.down = true;
    assertThrows(BursarException.class, this::compare);
    assertEquals(List.of(), engines.ended);
    bursar.down = false;
    compare();
    assertEquals(List.of(), engines.ended);
  }
}
