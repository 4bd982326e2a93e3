package io.github.bursar.linkis.allocation;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.bursar.client.Allocation;
import io.github.bursar.client.AllocationFilter;
import io.github.bursar.client.AllocationState;
import io.github.bursar.client.HostInfo;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.manager.am.vo.CanCreateECRes;
import org.apache.linkis.manager.common.entity.persistence.PersistenceResource;
import org.apache.linkis.manager.common.entity.resource.LoadInstanceResource;
import org.apache.linkis.manager.common.exception.RMErrorException;
import org.apache.linkis.manager.common.protocol.engine.EngineCreateRequest;
import org.apache.linkis.manager.common.utils.ResourceUtils;
import org.apache.linkis.manager.label.entity.Label;
import org.apache.linkis.manager.label.entity.engine.EngineInstanceLabel;
import org.apache.linkis.manager.rm.AvailableResource;
import org.apache.linkis.manager.rm.NotEnoughResource;
import org.apache.linkis.manager.rm.ResultResource;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class BursarResourceManagerTest extends ManagerFixture {
  @Test
  void anEngineFromRequestToItsEnd() {
    String ticket = granted("alice", 64);
    Allocation a = allocation(ticket);
    assertEquals(AllocationState.RESERVED, a.state());
    assertEquals(Map.of("system", "linkis", "user", "alice", "creator", "IDE", "engineType", "shell", "engineVersion", "1"), a.labels());
    assertEquals(host, a.hostId());
    assertEquals(64 * MIB, a.entitled().memoryBytes().getAsLong());
    assertEquals(10, a.entitled().cpuMillis().getAsLong());
    assertEquals(ticket, linkis.nodes.get(ticket).getTicketId());
    assertEquals(host + ":9102", linkis.nodes.get(ticket).getEMNode().getServiceInstance().getInstance());
    PersistenceResource row = linkis.resources.get(FakeLinkis.value(FakeLinkis.label(ticket)));
    assertEquals(ticket, row.getTicketId());
    assertTrue(row.getLockedResource().contains("\"memory\":67108864"), row.getLockedResource());
    assertEquals(1, linkis.records.get(ticket).getRequestTimes());
    assertEquals("Starting", linkis.records.get(ticket).getStatus());

    EngineInstanceLabel engine = linkis.started(ticket, host + ":17485", null);
    manager.resourceUsed(with(labels("alice"), engine), used());
    a = allocation(ticket);
    assertEquals(AllocationState.ACTIVE, a.state());
    assertEquals(host + ":17485", a.address());
    assertTrue(a.expireTime().isPresent(), "nobody told its pid, so it has a lease");
    row = linkis.resources.get(FakeLinkis.value(engine));
    assertTrue(row.getUsedResource().contains("\"memory\":67108864"), row.getUsedResource());
    assertTrue(row.getLockedResource().contains("\"memory\":0"), row.getLockedResource());
    assertEquals("Running", linkis.records.get(ticket).getStatus());
    manager.resourceUsed(with(labels("alice"), engine), used()); // twice is fine
    assertTrue(linkis.resources.get(FakeLinkis.value(engine)).getUsedResource().contains("\"memory\":67108864"));

    manager.resourceReleased(gone("alice", engine, null));
    assertEquals(AllocationState.RELEASED, allocation(ticket).state());
    assertFalse(linkis.resources.containsKey(FakeLinkis.value(engine)));
    assertEquals("Success", linkis.records.get(ticket).getStatus());
    assertTrue(linkis.records.get(ticket).getReleasedResource().contains("64.0 MB"), linkis.records.get(ticket).getReleasedResource());
  }

  @Test
  void refusalsHaveLinkissWordingAndBursarsNumbers() {
    limit("bob", 100);
    granted("bob", 64);
    ResultResource r = manager.requestResource(labels("bob"), asks(64, 1), new EngineCreateRequest(), 0);
    String reason = assertInstanceOf(NotEnoughResource.class, r).reason();
    assertTrue(reason.contains("12004"), reason);
    assertTrue(reason.contains("Drive memory resources are insufficient"), reason);
    assertTrue(reason.contains("use Memory, requestResource : 0GB > availableResource : 0GB,  maxResource : 0GB."), reason);
    assertTrue(reason.contains("quota user=bob: memory: requested 67108864, available 37748736"), reason);

    r = manager.requestResource(labels("eve"), asks(1L << 30, 1), new EngineCreateRequest(), 0);
    reason = assertInstanceOf(NotEnoughResource.class, r).reason();
    assertTrue(reason.contains("11001") && reason.contains("ECM memory resources are insufficient"), reason);
    assertTrue(reason.contains("ECM Instance:" + host + ":9102") && reason.contains("never fit"), reason);
    assertTrue(linkis.nodes.size() == 1 && linkis.records.size() == 1, "a refusal leaves no rows");
  }

  @Test
  void aRequestWaitsAsLongAsItsCallerAndNoLongerThanTheSetting() throws Exception {
    limit("carol", 100);
    manager.destroy();
    manager = manager(bursar, Map.of("wait.max", "1500ms"));
    String first = granted("carol", 64);
    long begin = System.nanoTime();
    ResultResource r = manager.requestResource(labels("carol"), asks(64, 1), new EngineCreateRequest(), 480_000);
    assertInstanceOf(NotEnoughResource.class, r);
    long took = Duration.ofNanos(System.nanoTime() - begin).toMillis();
    assertTrue(took >= 1400 && took < 6000, took + " ms");
    CompletableFuture<ResultResource> waiting =
        CompletableFuture.supplyAsync(() -> manager.requestResource(labels("carol"), asks(64, 1), new EngineCreateRequest(), 480_000));
    Thread.sleep(300);
    bursar.release(first, "");
    assertInstanceOf(AvailableResource.class, waiting.get(5, TimeUnit.SECONDS));
    begin = System.nanoTime();
    assertInstanceOf(NotEnoughResource.class, manager.requestResource(labels("carol"), asks(101, 1), new EngineCreateRequest(), 480_000));
    assertTrue(Duration.ofNanos(System.nanoTime() - begin).toMillis() < 1000, "what can never fit is not waited for");
  }

  /** Linkis has 200 threads for all users. */
  @Test
  void aUserWhoHasNothingLeftDoesNotHoldAllThreads() throws Exception {
    manager.destroy();
    manager = manager(bursar, Map.of("wait.max", "5s"));
    limit("greedy", 100);
    granted("greedy", 64);
    AtomicInteger refused = new AtomicInteger();
    ExecutorService threads = Executors.newFixedThreadPool(30);
    for (int t = 0; t < 30; t++) {
      threads.execute(
          () -> {
            manager.requestResource(labels("greedy"), asks(64, 1), new EngineCreateRequest(), 480_000);
            refused.incrementAndGet();
          });
    }
    threads.shutdown();
    for (int i = 0; i < 80 && refused.get() < 30 - 8; i++) {
      Thread.sleep(50);
    }
    Thread.sleep(300);
    assertEquals(30 - 8, refused.get(), "the others were told at once");
    assertTrue(threads.awaitTermination(30, TimeUnit.SECONDS));
    assertEquals(30, refused.get());
  }

  @Test
  void manyAtOnceDoNotGoOver() throws Exception {
    limit("race", 1024);
    AtomicInteger live = new AtomicInteger();
    AtomicInteger most = new AtomicInteger();
    AtomicInteger grants = new AtomicInteger();
    ExecutorService threads = Executors.newFixedThreadPool(32);
    for (int t = 0; t < 32; t++) {
      threads.execute(
          () -> {
            for (int i = 0; i < 5; i++) {
              ResultResource r = manager.requestResource(labels("race"), asks(256, 1), new EngineCreateRequest(), 0);
              if (r instanceof AvailableResource) {
                grants.incrementAndGet();
                most.accumulateAndGet(live.incrementAndGet(), Math::max);
                live.decrementAndGet(); // before it is given back
                bursar.release(((AvailableResource) r).ticketId(), "");
              }
            }
          });
    }
    threads.shutdown();
    assertTrue(threads.awaitTermination(60, TimeUnit.SECONDS));
    assertTrue(most.get() <= 4, most + " of 4");
    assertTrue(grants.get() >= 4, grants + " grants");
  }

  @Test
  void whatCannotBeRecordedIsGivenBack() {
    for (boolean node : new boolean[] {true, false}) {
      linkis.addEngineNodeFails = node ? new IllegalStateException("database") : null;
      linkis.resourceFails = node ? null : new IllegalStateException("database");
      assertThrows(
          IllegalStateException.class, () -> manager.requestResource(labels("dave"), asks(64, 1), new EngineCreateRequest(), 0));
      assertEquals(List.of(), bursar.allAllocations(AllocationFilter.live().label("user", "dave")).items());
      assertTrue(linkis.nodes.isEmpty() && linkis.resources.isEmpty() && linkis.nodeLabels.isEmpty(), "no rows are left");
    }
  }

  /** Other engines' starts and ends wait for rows of these two tables until they are committed. */
  @Test
  void theRowsThatLinkisSearchesWithoutAnIndexAreWrittenLast() {
    granted("last", 64);
    assertEquals(
        List.of("registerLabel", "registerResource", "addLabelsAndResource", "addLabelServiceInstance", "addEngineNode"), linkis.written);
  }

  @Test
  void aManagerThatEndsBeforeItsRowLeavesAReservationThatExpires() throws Exception {
    manager.destroy();
    manager = manager(bursar, Map.of("reservation.ttl", "1s"));
    // An Error: as if the process had ended, nothing of ours runs afterwards.
    linkis.addEngineNodeFails = new ThreadDeath();
    assertThrows(ThreadDeath.class, () -> granted("killed", 64));
    assertEquals(1, bursar.allAllocations(AllocationFilter.live().label("user", "killed")).items().size());
    for (int i = 0; !bursar.allAllocations(AllocationFilter.live().label("user", "killed")).items().isEmpty(); i++) {
      assertTrue(i < 100, "it does not expire");
      Thread.sleep(100);
    }
  }

  @Test
  void canRequestSaysWhatIsThere() {
    limit("erin", 100);
    CanCreateECRes yes = manager.canRequestResource(labels("erin"), asks(64, 1), new EngineCreateRequest());
    assertTrue(yes.isCanCreateEC(), yes.getReason());
    assertNotNull(yes.getEcmResource());
    assertTrue(yes.getLabelResource().contains("\"memory\":104857600"), yes.getLabelResource());
    granted("erin", 64);
    CanCreateECRes no = manager.canRequestResource(labels("erin"), asks(64, 1), new EngineCreateRequest());
    assertFalse(no.isCanCreateEC());
    assertTrue(no.getReason().contains("12004"), no.getReason());
    assertEquals(1, bursar.allAllocations(AllocationFilter.live().label("user", "erin")).items().size());
  }

  @Test
  void anEcmThatRegistersAgainKeepsItsEngines() {
    ServiceInstance ecm = ServiceInstance.apply("linkis-cg-engineconnmanager", host + ":9102");
    manager.register(ecm, asks(4096, 100));
    PersistenceResource row = linkis.resources.values().iterator().next();
    row.setUsedResource(ResourceUtils.serializeResource(new LoadInstanceResource(1L << 30, 2, 2)));
    row.setLockedResource(ResourceUtils.serializeResource(new LoadInstanceResource(0, 0, 0)));
    manager.register(ecm, asks(2048, 50));
    row = linkis.resources.values().iterator().next();
    assertEquals(ResourceUtils.serializeResource(new LoadInstanceResource(1L << 30, 2, 2)), row.getUsedResource());
    assertEquals(ResourceUtils.serializeResource(new LoadInstanceResource(2L << 30, 50, 1)), row.getMaxResource());
  }

  @Test
  void anEcmOfAKnownHostIsRegisteredAndOneWithoutAnAgentIsRefused() {
    ServiceInstance ecm = ServiceInstance.apply("linkis-cg-engineconnmanager", host + ":9102");
    manager.register(ecm, asks(4096, 100));
    assertEquals(1, linkis.resources.size());
    manager.register(ecm, asks(4096, 100));
    assertEquals(1, linkis.resources.size());
    manager.unregister(ecm);
    assertEquals(0, linkis.resources.size());
    manager.agentComes = Duration.ofSeconds(1);
    RMErrorException e =
        assertThrows(
            RMErrorException.class,
            () -> manager.register(ServiceInstance.apply("linkis-cg-engineconnmanager", "nowhere:9102"), asks(4096, 100)));
    assertTrue(e.getMessage().contains("\"nowhere\"") && e.getMessage().contains("bursar agent"), e.getMessage());
    assertEquals(0, linkis.resources.size());
    assertEquals(HostInfo.State.HEALTHY, bursar.host(host).get().state());
  }

  @Test
  void aResetChangesNothing() {
    granted("reset", 64);
    Map<String, PersistenceResource> before = Map.copyOf(linkis.resources);
    manager.resetResource(null, asks(1, 1));
    assertEquals(before, linkis.resources);
    assertEquals(1, bursar.allAllocations(AllocationFilter.live().label("user", "reset")).items().size());
  }

  @Test
  void aRequestThatMakesNoSenseIsNotRepeated() {
    RMErrorException e =
        assertThrows(
            RMErrorException.class, () -> manager.requestResource(labels("x"), asks(-1, 1), new EngineCreateRequest(), 0));
    assertTrue(e.getMessage().contains("memory is -1048576"), e.getMessage());
    List<Label<?>> noType = labels("x");
    noType.remove(1);
    assertThrows(RMErrorException.class, () -> manager.requestResource(noType, asks(1, 1), new EngineCreateRequest(), 0));
  }
}
