package io.github.bursar.linkis.clusters;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.bursar.client.BursarClient;
import io.github.bursar.client.BursarException;
import io.github.bursar.linkis.FakeBursar;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.linkis.manager.common.entity.resource.CommonNodeResource;
import org.apache.linkis.manager.common.entity.resource.DriverAndYarnResource;
import org.apache.linkis.manager.common.entity.resource.LoadInstanceResource;
import org.apache.linkis.manager.common.entity.resource.NodeResource;
import org.apache.linkis.manager.common.entity.resource.ResourceType;
import org.apache.linkis.manager.common.entity.resource.YarnResource;
import org.apache.linkis.manager.common.exception.RMWarnException;
import org.apache.linkis.manager.common.protocol.engine.EngineCreateRequest;
import org.apache.linkis.manager.label.entity.Label;
import org.apache.linkis.manager.label.entity.engine.EngineTypeLabel;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class AcrossClusterRuleTest {
  private FakeBursar fake;
  private BursarClient bursar;

  @BeforeEach
  void start() throws Exception {
    fake = new FakeBursar();
    bursar = fake.client();
    fake.queue("root", 1000, 1000, 100, 100, "");
    fake.queue("root.q", 100, 100, 50, 50, "");
  }

  @AfterEach
  void stop() {
    bursar.close();
    fake.close();
  }

  private static NodeResource inQueue(String queue) {
    CommonNodeResource r = new CommonNodeResource();
    r.setResourceType(ResourceType.DriverAndYarn);
    r.setMinResource(
        new DriverAndYarnResource(new LoadInstanceResource(1 << 30, 1, 1), new YarnResource(1 << 30, 1, 0, queue, "")));
    r.setMaxResource(r.getMinResource());
    return r;
  }

  private static NodeResource onHost() {
    CommonNodeResource r = new CommonNodeResource();
    r.setResourceType(ResourceType.LoadInstance);
    r.setMinResource(new LoadInstanceResource(1 << 30, 1, 1));
    r.setMaxResource(r.getMinResource());
    return r;
  }

  private static List<Label<?>> type(String engine) {
    EngineTypeLabel label = new EngineTypeLabel();
    label.setEngineType(engine);
    label.setVersion("1");
    return new ArrayList<>(List.of(label));
  }

  private static Map<String, String> origin(String cpu, String memory) {
    return new HashMap<>(
        Map.of(
            "acrossClusterTask", "true", "priorityCluster", "bdap", "originCPUPercentageThreshold", cpu,
            "originMemoryPercentageThreshold", memory));
  }

  private static Map<String, String> target(String cores, String gibibytes, String cpu, String memory) {
    return new HashMap<>(
        Map.of(
            "acrossClusterTask", "true", "priorityCluster", "bdp", "targetCPUThreshold", cores, "targetMemoryThreshold", gibibytes,
            "targetCPUPercentageThreshold", cpu, "targetMemoryPercentageThreshold", memory));
  }

  private static Optional<AcrossClusterRule> rule(String engine, NodeResource resource, Map<String, String> properties, String types) {
    EngineCreateRequest request = new EngineCreateRequest();
    request.setProperties(properties);
    return AcrossClusterRule.of(type(engine), resource, request, types);
  }

  private String judged(Map<String, String> properties) {
    return rule("spark", inQueue("root.q"), properties, "").get().broken(bursar).map(RMWarnException::getMessage).orElse("");
  }

  @Test
  void aTaskOfTheOriginClusterIsRefusedFromTheThresholdsOn() {
    assertEquals("", judged(origin("0.51", "0.51")));
    for (Map<String, String> full : List.of(origin("0.5", "0.9"), origin("0.9", "0.5"), origin("0", "0"))) {
      String said = judged(full);
      // The caller looks for these words, and goes to the other cluster if it finds them.
      assertTrue(said.contains("12013") && said.contains("origin cluster retry"), said);
      assertTrue(said.contains("queue yarn:default:root.q") && said.contains("usedCPUPercentage: 0.5"), said);
    }
  }

  @Test
  void aTaskOfTheTargetClusterNeedsRoomInTheQueueAndInTheCluster() {
    assertEquals("", judged(target("50", "50", "0.51", "0.51")));
    for (Map<String, String> wants : List.of(
        target("51", "1", "0.9", "0.9"), target("1", "51", "0.9", "0.9"), target("1", "1", "0.5", "0.9"), target("1", "1", "0.9", "0.5"))) {
      String said = judged(wants);
      assertTrue(said.contains("12013") && said.contains("queue yarn:default:root.q"), said);
      assertFalse(said.contains("origin cluster retry"), said);
    }
    fake.queue("root", 1000, 1000, 100, 800, "");
    String said = judged(target("1", "1", "0.9", "0.9"));
    assertTrue(said.contains("12013") && said.contains("clusterUsedCPUPercentage: 0.8") && said.contains("yarn:default:root"), said);
    fake.queue("root", 1000, 1000, 799, 799, "");
    assertEquals("", judged(target("1", "1", "0.9", "0.9")));
  }

  /** Reservations and engines count, not only what others use. */
  @Test
  void whatBursarHasGrantedCounts() {
    fake.queue("root.q", 100, 100, 10, 10, "'ignored':{}");
    assertEquals("", judged(origin("0.3", "0.3")));
    fake.queues("root.q").with("account").set("used", FakeBursar.object("{'memoryBytes':'" + (10L << 30) + "','cpuMillis':'1000'}"));
    fake.queues("root.q").with("account").set("reserved", FakeBursar.object("{'memoryBytes':'" + (10L << 30) + "','cpuMillis':'1000'}"));
    assertTrue(judged(origin("0.3", "0.3")).contains("usedMemoryPercentage: 0.3,"), judged(origin("0.3", "0.3")));
  }

  @Test
  void aQuantityThatIsNotLimitedIsNeverUsedUpAndAQueueOfNothingIsFull() {
    fake.queue("root.q", 0, 0, 0, 0, "");
    assertTrue(judged(origin("1", "1")).contains("origin cluster retry"));
    fake.queues("root.q").with("account").remove("limit");
    assertEquals("", judged(origin("0.1", "0.1")));
    assertEquals("", judged(target("1000000", "1000000", "0.1", "0.1")));
  }

  @Test
  void aThresholdThatIsNoNumberRefusesAsInLinkis() {
    for (Map<String, String> wrong : List.of(
        origin("much", "0.9"), origin("NaN", "0.9"), target("1.5", "1", "0.9", "0.9"), target("1", "99999999999", "0.9", "0.9"),
        target("1", "1", "0.9", "a\nlot of\u202e"))) {
      String said = judged(wrong);
      assertTrue(said.contains("12013") && said.contains("Threshold is \"") && said.contains("want a "), said);
      assertFalse(said.contains("origin cluster retry") || said.contains("\n") || said.contains("\u202e"), said);
    }
  }

  @Test
  void otherRequestsHaveNoRule() {
    Map<String, String> none = new HashMap<>();
    assertFalse(rule("spark", inQueue("root.q"), null, "").isPresent());
    assertFalse(rule("spark", inQueue("root.q"), none, "").isPresent());
    for (String[] change : new String[][] {
        {"acrossClusterTask", "false"}, {"acrossClusterTask", ""}, {"acrossClusterTask", null}, {"priorityCluster", "elsewhere"},
        {"priorityCluster", null}, {"originCPUPercentageThreshold", " "}, {"originMemoryPercentageThreshold", null}}) {
      Map<String, String> properties = origin("0.1", "0.1");
      properties.put(change[0], change[1]);
      assertFalse(rule("spark", inQueue("root.q"), properties, "").isPresent(), String.join("=", change[0], change[1]));
    }
    Map<String, String> loud = origin("0.1", "0.1");
    loud.put("acrossClusterTask", "TRUE");
    assertTrue(rule("spark", inQueue("root.q"), loud, "").isPresent());
    loud.put("acrossClusterTask", "maybe");
    String said = assertThrows(IllegalArgumentException.class, () -> rule("spark", inQueue("root.q"), loud, "")).getMessage();
    assertTrue(said.contains("acrossClusterTask is \"maybe\": want true or false"), said);
    assertEquals(0, fake.calls.size(), "nobody is asked for a request without a rule");
  }

  @Test
  void enginesOfListedTypesAreJudgedByTheQueueOfTheirProperty() {
    fake.queue("etl", 100, 100, 90, 90, "");
    fake.queue("default", 100, 100, 10, 10, "");
    Map<String, String> properties = origin("0.8", "0.8");
    assertFalse(rule("hive", onHost(), properties, "").isPresent());
    assertFalse(rule("spark", onHost(), properties, "hive,spark").isPresent());
    assertFalse(rule("hive", onHost(), properties, "hive,spark").get().broken(bursar).isPresent());
    properties.put("wds.linkis.rm.yarnqueue", "etl");
    assertTrue(rule("hive", onHost(), properties, "hive,spark").get().broken(bursar).isPresent());
    // One that has a part in a queue as well is judged by both.
    assertTrue(rule("hive", inQueue("root.q"), properties, "hive").get().broken(bursar).isPresent());
    assertFalse(rule("hive", inQueue("root.q"), properties, "").get().broken(bursar).isPresent());
  }

  @Test
  void aQueueThatBursarDoesNotKnowIsNoReasonToLetATaskPass() {
    AcrossClusterRule rule = rule("spark", inQueue("root.x"), origin("0.9", "0.9"), "").get();
    UnknownQueueException e = assertThrows(UnknownQueueException.class, () -> rule.broken(bursar));
    assertTrue(!e.passes() && e.getMessage().contains("needs queue \"root.x\" of YARN, and Bursar knows no such queue"), e.getMessage());
    fake.queueError = FakeBursar.object("{'code':'invalid_argument','message':'queue.kind yarn: want a kind that a provider is configured for'}");
    e = assertThrows(UnknownQueueException.class, () -> rule.broken(bursar));
    assertTrue(!e.passes() && e.getMessage().contains("want a kind that a provider is configured for"), e.getMessage());
    fake.queueError = FakeBursar.object("{'code':'permission_denied','message':'not yours'}");
    assertThrows(BursarException.class, () -> rule.broken(bursar));
  }

  @Test
  void aClusterThatCannotBeReadIsAskedForAgainAndAQueueThatIsStoppedHasFigures() {
    fake.queue("root.q", 100, 100, 10, 10, "'unavailable':'not read for 40 s'");
    assertEquals("", judged(origin("0.9", "0.9")));
    fake.clusterKnown = false;
    UnknownQueueException e = assertThrows(UnknownQueueException.class, () -> judged(origin("0.9", "0.9")));
    assertTrue(e.passes() && e.getMessage().contains("not read for 40 s"), e.getMessage());
  }
}
