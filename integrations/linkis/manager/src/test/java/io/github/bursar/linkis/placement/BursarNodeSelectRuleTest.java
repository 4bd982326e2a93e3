package io.github.bursar.linkis.placement;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.bursar.client.BursarClient;
import io.github.bursar.client.Resource;
import io.github.bursar.linkis.FakeBursar;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.manager.common.entity.node.AMEMNode;
import org.apache.linkis.manager.common.entity.node.AMEngineNode;
import org.apache.linkis.manager.common.entity.node.Node;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class BursarNodeSelectRuleTest {
  private static final long GIB = 1L << 30;

  private FakeBursar bursar;
  private BursarClient client;
  private final AtomicLong nanos = new AtomicLong();
  private Resource size = request(1);
  private BursarNodeSelectRule rule;

  @BeforeEach
  void start() throws Exception {
    bursar = new FakeBursar();
    client = bursar.client();
    rule =
        new BursarNodeSelectRule(
            new HostChooser(() -> HostChooser.hosts(client, Duration.ofSeconds(1)), nanos::get), () -> size, ecm -> ecm.getInstance().split(":")[0]);
    host("a", 16, 2, "");
    host("b", 16, 6, "");
    host("c", 32, 8, "");
  }

  @AfterEach
  void stop() {
    client.close();
    bursar.close();
  }

  private void host(String id, long gib, long availableGib, String more) {
    bursar.host(
        id,
        "'account':{'limit':{'memoryBytes':'" + gib * GIB + "','cpuMillis':'16000'},'available':{'memoryBytes':'" + availableGib * GIB
            + "','cpuMillis':'16000'}}" + more);
  }

  private static Resource request(long gib) {
    return Resource.builder().memoryBytes(gib * GIB).cpuMillis(1000).build();
  }

  private static Node[] ecms(String... hosts) {
    Node[] nodes = new Node[hosts.length];
    for (int i = 0; i < hosts.length; i++) {
      nodes[i] = new AMEMNode();
      nodes[i].setServiceInstance(instance(hosts[i]));
    }
    return nodes;
  }

  private static ServiceInstance instance(String host) {
    ServiceInstance s = new ServiceInstance();
    s.setApplicationName("linkis-cg-engineconnmanager");
    s.setInstance(host + ":9102");
    return s;
  }

  private String chosen(String... hosts) {
    List<String> names = new ArrayList<>();
    for (Node n : rule.ruleFiltering(ecms(hosts))) {
      names.add(n.getServiceInstance().getInstance().split(":")[0]);
    }
    return String.join(" ", names);
  }

  @Test
  void theHostWithTheMostLeftComesFirst() {
    assertEquals("b c a", chosen("a", "b", "c"));
  }

  @Test
  void hostsWithoutRoomForTheRequestComeLast() {
    size = request(7);
    assertEquals("c", chosen("a", "b", "c").substring(0, 1));
  }

  @Test
  void hostsThatTakeNothingAreLeftOut() {
    host("b", 16, 6, ",'unavailableReason':'draining'");
    assertEquals("c a", chosen("a", "b", "c", "without-agent"));
  }

  @Test
  void ifNoneTakesAnythingTheOrderStays() {
    assertEquals("x y", chosen("x", "y"));
  }

  @Test
  void requestsThatComeTogetherAreSpread() {
    size = request(2);
    host("a", 16, 6, "");
    host("b", 16, 6, "");
    String first = chosen("a", "b").substring(0, 1);
    String second = chosen("a", "b").substring(0, 1);
    assertTrue(!first.equals(second), first + second);
    assertEquals(1, bursar.count("HostService/List"), "within a second Bursar is asked once");
    nanos.addAndGet(Duration.ofSeconds(2).toNanos());
    chosen("a", "b");
    assertEquals(2, bursar.count("HostService/List"));
  }

  @Test
  void ifBursarDoesNotAnswerTheOrderStaysAndNobodyWaitsLong() {
    bursar.delay = Duration.ofSeconds(30);
    long begin = System.nanoTime();
    assertEquals("a b c", chosen("a", "b", "c"));
    assertTrue(System.nanoTime() - begin < Duration.ofSeconds(3).toNanos());
    begin = System.nanoTime();
    for (int i = 0; i < 50; i++) {
      assertEquals("a b c", chosen("a", "b", "c"));
    }
    assertTrue(System.nanoTime() - begin < Duration.ofSeconds(1).toNanos(), "not asked again at once");
    bursar.delay = Duration.ZERO;
    nanos.addAndGet(Duration.ofSeconds(2).toNanos());
    assertEquals("b c a", chosen("a", "b", "c"));
  }

  @Test
  void allPagesTogetherTakeASecondAtMost() {
    bursar.hostsPerPage = 1;
    assertEquals("b c a", chosen("a", "b", "c"));
    nanos.addAndGet(Duration.ofSeconds(2).toNanos());
    bursar.delay = Duration.ofMillis(600);
    long begin = System.nanoTime();
    assertEquals("a b c", chosen("a", "b", "c"));
    long took = Duration.ofNanos(System.nanoTime() - begin).toMillis();
    assertTrue(took < 1500, took + " ms: three pages would take 1800");
  }

  @Test
  void whoCreatesNoEngineGetsLinkissOrder() {
    size = null;
    assertEquals("a b c", chosen("a", "b", "c"));
    Node[] engines = {new AMEngineNode(), new AMEngineNode()};
    size = request(1);
    assertArrayEquals(engines, rule.ruleFiltering(engines));
    assertEquals(0, bursar.calls.size());
  }
}
