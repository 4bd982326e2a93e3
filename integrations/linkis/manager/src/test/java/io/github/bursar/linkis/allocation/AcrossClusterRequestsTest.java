package io.github.bursar.linkis.allocation;

import static io.github.bursar.linkis.FakeBursar.object;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.bursar.client.AllocateRequest;
import io.github.bursar.client.BursarClient;
import io.github.bursar.client.Resource;
import io.github.bursar.linkis.FakeBursar;
import io.github.bursar.linkis.Settings;
import io.github.bursar.linkis.clusters.AcrossClusterRule;
import io.github.bursar.linkis.mapping.LabelMapper;
import io.github.bursar.linkis.mapping.ResourceMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import org.apache.linkis.common.exception.LinkisRetryException;
import org.apache.linkis.manager.common.entity.resource.CommonNodeResource;
import org.apache.linkis.manager.common.entity.resource.DriverAndYarnResource;
import org.apache.linkis.manager.common.entity.resource.LoadInstanceResource;
import org.apache.linkis.manager.common.entity.resource.NodeResource;
import org.apache.linkis.manager.common.entity.resource.ResourceType;
import org.apache.linkis.manager.common.entity.resource.YarnResource;
import org.apache.linkis.manager.common.exception.RMErrorException;
import org.apache.linkis.manager.common.protocol.engine.EngineCreateRequest;
import org.apache.linkis.manager.label.entity.Label;
import org.apache.linkis.manager.label.entity.em.EMInstanceLabel;
import org.apache.linkis.manager.label.entity.engine.EngineTypeLabel;
import org.apache.linkis.manager.label.entity.engine.UserCreatorLabel;
import org.apache.linkis.manager.rm.AvailableResource;
import org.apache.linkis.manager.rm.NotEnoughResource;
import org.apache.linkis.manager.rm.ResultResource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a request with a rule for tasks across clusters meets in enforce and in shadow. */
@Timeout(60)
class AcrossClusterRequestsTest {
  private static final String HOST_SHORT = "{'account':{'kind':'ACCOUNT_KIND_HOST','labels':{'host':'h'}},'dimension':'memory'}";
  private static final String QUEUE_SHORT = "{'account':{'kind':'ACCOUNT_KIND_QUEUE','labels':{'path':'root.q'}},'dimension':'memory'}";
  private static final String QUOTA_SHORT = "{'account':{'kind':'ACCOUNT_KIND_QUOTA','labels':{'user':'alice'}},'dimension':'memory'}";

  private FakeBursar fake;
  private BursarClient bursar;
  private FakeLinkis linkis;
  private BursarResourceManager manager;

  @BeforeEach
  void start() throws Exception {
    fake = new FakeBursar();
    bursar = fake.client();
    linkis = new FakeLinkis();
    Settings s = Settings.of(new HashMap<>(Map.of("url", "http://127.0.0.1:1", "mode", "enforce", "wait.max", "5s")));
    manager = new BursarResourceManager(bursar, s, new ResourceMapper(1000), new LabelMapper(s));
    manager.setRows(linkis.rows());
    fake.queue("root", 1000, 1000, 100, 100, "");
    fake.queue("root.q", 100, 100, 50, 50, "");
    fake.refusal = object("{'allocation':{'id':'0000000000001','state':'ALLOCATION_STATE_RESERVED'}}");
    fake.explanation = object("{'verdict':'VERDICT_FITS'}");
  }

  @AfterEach
  void stop() {
    manager.destroy();
    bursar.close();
    fake.close();
  }

  private static List<Label<?>> labels(String engine) {
    UserCreatorLabel u = new UserCreatorLabel();
    u.setUser("alice");
    u.setCreator("IDE");
    EngineTypeLabel e = new EngineTypeLabel();
    e.setEngineType(engine);
    e.setVersion("1");
    EMInstanceLabel em = new EMInstanceLabel();
    em.setServiceName("linkis-cg-engineconnmanager");
    em.setInstance("h:9102");
    return new ArrayList<>(List.of(u, e, em));
  }

  private static NodeResource asks() {
    CommonNodeResource r = new CommonNodeResource();
    r.setResourceType(ResourceType.DriverAndYarn);
    r.setMinResource(
        new DriverAndYarnResource(new LoadInstanceResource(1 << 30, 1, 1), new YarnResource(1 << 30, 1, 0, "root.q", "")));
    r.setMaxResource(r.getMinResource());
    return r;
  }

  private static EngineCreateRequest with(Map<String, String> properties) {
    EngineCreateRequest request = new EngineCreateRequest();
    request.setProperties(properties);
    return request;
  }

  private static Map<String, String> origin(String share) {
    return new HashMap<>(
        Map.of(
            "acrossClusterTask", "true", "priorityCluster", "bdap", "originCPUPercentageThreshold", share,
            "originMemoryPercentageThreshold", share));
  }

  private static Map<String, String> target(String share) {
    return new HashMap<>(
        Map.of(
            "acrossClusterTask", "true", "priorityCluster", "bdp", "targetCPUThreshold", "1", "targetMemoryThreshold", "1",
            "targetCPUPercentageThreshold", share, "targetMemoryPercentageThreshold", share));
  }

  private ResultResource request(Map<String, String> properties) {
    return manager.requestResource(labels("spark"), asks(), with(properties), 60_000);
  }

  private String refused(Map<String, String> properties) {
    return assertInstanceOf(NotEnoughResource.class, request(properties)).reason();
  }

  private void isShort(String... accounts) {
    fake.explanation = object("{'verdict':'VERDICT_WAITS','summary':'too little','shortfalls':[" + String.join(",", accounts) + "]}");
  }

  /** The caller tries the other cluster: it finds the code and, of the origin's rule, these words. */
  @Test
  void aBrokenRuleIsRefusedAtOnceWithLinkissCodeAndNothingIsAskedFor() {
    String said = refused(origin("0.5"));
    assertTrue(said.contains("12013") && said.contains("origin cluster retry") && said.contains("yarn:default:root.q"), said);
    said = refused(target("0.5"));
    assertTrue(said.contains("12013") && !said.contains("origin cluster retry"), said);
    assertEquals(0, fake.count("AllocationService/Allocate"), fake.calls.toString());
    assertTrue(linkis.nodes.isEmpty() && linkis.records.isEmpty(), "a refusal leaves no rows");
  }

  @Test
  void aRuleThatHoldsIsGrantedAndOtherRequestsAskForNoQueue() {
    assertInstanceOf(AvailableResource.class, request(origin("0.51")));
    assertEquals(1, fake.count("QueueService/Get"), fake.calls.toString());
    fake.calls.clear();
    for (Map<String, String> none : List.of(new HashMap<String, String>(), Map.of("priorityCluster", "bdap"))) {
      fake.refusal = object("{'allocation':{'id':'000000000000" + (2 + none.size()) + "','state':'ALLOCATION_STATE_RESERVED'}}");
      assertInstanceOf(AvailableResource.class, request(none));
    }
    assertEquals(List.of("AllocationService/Allocate ", "AllocationService/Allocate "), fake.calls);
  }

  /** The figures would be old when the wait ends. */
  @Test
  void aRequestWithARuleDoesNotWait() {
    request(origin("0.9"));
    assertEquals("0s", fake.waits);
    fake.refusal = object("{'allocation':{'id':'0000000000002','state':'ALLOCATION_STATE_RESERVED'}}");
    request(new HashMap<>());
    assertFalse(fake.waits.isEmpty() || fake.waits.equals("0s"), fake.waits);
  }

  /** Linkis looks at the ECM, the origin's rule, the queue, the target's rule, the user, in this order. */
  @Test
  void whatIsShortAndWouldBeNamedBeforeTheRuleIsNamed() {
    isShort(HOST_SHORT, QUEUE_SHORT, QUOTA_SHORT);
    assertTrue(refused(origin("0.5")).contains("ECM memory resources are insufficient"), refused(origin("0.5")));
    assertTrue(refused(target("0.5")).contains("ECM memory resources are insufficient"), refused(target("0.5")));
    isShort(QUEUE_SHORT, QUOTA_SHORT);
    assertTrue(refused(origin("0.5")).contains("origin cluster retry"), refused(origin("0.5")));
    assertTrue(refused(target("0.5")).contains("Insufficient cluster queue memory"), refused(target("0.5")));
    isShort(QUOTA_SHORT);
    assertTrue(refused(origin("0.5")).contains("origin cluster retry"), refused(origin("0.5")));
    assertTrue(refused(target("0.5")).contains("12013"), refused(target("0.5")));
  }

  @Test
  void withoutFiguresNothingIsGranted() {
    fake.queueError = object("{'code':'not_found','message':'no such queue'}");
    RMErrorException wrong = assertThrows(RMErrorException.class, () -> request(origin("0.9")));
    assertTrue(wrong.getMessage().contains("Bursar knows no such queue"), wrong.getMessage());
    fake.queueError = null;
    fake.queue("root.q", 100, 100, 10, 10, "'unavailable':'not read for 40 s'");
    fake.clusterKnown = false;
    assertThrows(LinkisRetryException.class, () -> request(origin("0.9")));
    fake.down = true;
    assertThrows(LinkisRetryException.class, () -> request(origin("0.9")));
    fake.down = false;
    Map<String, String> maybe = origin("0.9");
    maybe.put("acrossClusterTask", "maybe");
    assertThrows(RMErrorException.class, () -> request(maybe));
    assertEquals(0, fake.count("AllocationService/Allocate"), fake.calls.toString());
  }

  @Test
  void shadowCountsARuleThatBursarWouldNotLetPass() throws Exception {
    try (ShadowBooks books = new ShadowBooks(bursar, Duration.ofMinutes(1))) {
      ShadowReport report = books.report();
      books.granted("t1", asked(), rule(origin("0.5")));
      until(() -> report.getStockAloneGrants() == 1);
      assertEquals(1, fake.count("AllocationService/Allocate"), "it is booked: it runs");
      books.granted("t2", asked(), rule(origin("0.6")));
      until(() -> report.getBothGrant() == 1);
      books.refused("rule", asked(), rule(origin("0.5")));
      until(() -> report.getBothRefuse() == 1);
      books.refused("rule", asked(), rule(origin("0.6")));
      until(() -> report.getBursarAloneGrants() == 1);
      assertEquals(0, report.getNotCompared());
      fake.queueError = object("{'code':'not_found','message':'no such queue'}");
      books.granted("t3", asked(), rule(origin("0.6")));
      until(() -> report.getNotCompared() == 1);
      assertEquals(3, fake.count("AllocationService/Allocate"), "it is booked: it runs");
    }
  }

  private static AllocateRequest.Builder asked() {
    return AllocateRequest.builder()
        .label("user", "alice")
        .resource(Resource.builder().memoryBytes(1 << 20).build());
  }

  private static AcrossClusterRule rule(Map<String, String> properties) {
    return AcrossClusterRule.of(labels("spark"), asks(), with(properties)).get();
  }

  private static void until(BooleanSupplier what) throws InterruptedException {
    for (int i = 0; !what.getAsBoolean(); i++) {
      assertFalse(i > 400, "it did not come to that");
      Thread.sleep(10);
    }
  }
}
