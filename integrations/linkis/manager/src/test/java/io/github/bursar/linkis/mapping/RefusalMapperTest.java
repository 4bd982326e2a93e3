package io.github.bursar.linkis.mapping;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.bursar.client.AllocateRequest;
import io.github.bursar.client.BursarClient;
import io.github.bursar.client.BursarException;
import io.github.bursar.client.Explanation;
import io.github.bursar.client.Resource;
import io.github.bursar.linkis.FakeBursar;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Map;
import org.apache.linkis.manager.common.exception.RMWarnException;
import org.junit.jupiter.api.Test;

class RefusalMapperTest {
  private static final String HOST = "{\"kind\":\"ACCOUNT_KIND_HOST\",\"labels\":{\"host\":\"h\"}}";
  private static final String QUOTA = "{\"kind\":\"ACCOUNT_KIND_QUOTA\",\"labels\":{\"user\":\"alice\"}}";
  private static final String QUOTA_IN_QUEUE =
      "{\"kind\":\"ACCOUNT_KIND_QUOTA\",\"labels\":{\"user\":\"alice\"},\"external\":{\"kind\":\"yarn\",\"cluster\":\"*\",\"path\":\"*\"}}";
  private static final String QUEUE =
      "{\"kind\":\"ACCOUNT_KIND_QUEUE\",\"labels\":{\"kind\":\"yarn\",\"cluster\":\"c\",\"path\":\"root.etl\"}}";

  private static String shortfall(String account, String dimension, long asked, long available, long limit) {
    return "{\"account\":" + account + ",\"dimension\":\"" + dimension + "\",\"requested\":\"" + asked + "\",\"available\":\"" + available
        + "\",\"limit\":\"" + limit + "\"}";
  }

  private static RMWarnException refusal(String... shortfalls) {
    String answer = "{\"verdict\":\"VERDICT_WAITS\",\"shortfalls\":[" + String.join(",", shortfalls) + "]}";
    try (FakeBursar bursar = new FakeBursar();
        BursarClient client = bursar.client()) {
      bursar.explanation = FakeBursar.object(answer);
      Explanation e = client.explain(AllocateRequest.builder().resource(Resource.EMPTY).build());
      return new RefusalMapper(500).refusal("ecm-1:9102", e.shortfalls(), false, "in Bursar's words");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void codesAreLinkissOwn() {
    Map<Integer, String> codes =
        Map.ofEntries(
            Map.entry(11002, shortfall(HOST, "cpu", 1, 0, 1)),
            Map.entry(11001, shortfall(HOST, "memory", 1, 0, 1)),
            Map.entry(11003, shortfall(HOST, "instances", 1, 0, 1)),
            Map.entry(11000, shortfall(HOST, "gpu", 1, 0, 1)),
            Map.entry(12005, shortfall(QUOTA, "cpu", 1, 0, 1)),
            Map.entry(12004, shortfall(QUOTA, "memory", 1, 0, 1)),
            Map.entry(12006, shortfall(QUOTA, "instances", 1, 0, 1)),
            Map.entry(12001, shortfall(QUOTA_IN_QUEUE, "cpu", 1, 0, 1)),
            Map.entry(12002, shortfall(QUOTA_IN_QUEUE, "memory", 1, 0, 1)),
            Map.entry(12003, shortfall(QUOTA_IN_QUEUE, "instances", 1, 0, 1)),
            Map.entry(12011, shortfall(QUEUE, "cpu", 1, 0, 1)),
            Map.entry(12010, shortfall(QUEUE, "memory", 1, 0, 1)),
            Map.entry(12012, shortfall(QUEUE, "applications", 1, 0, 1)));
    codes.forEach(
        (code, s) -> {
          RMWarnException e = refusal(s);
          assertEquals(code, e.getErrCode(), s);
          assertTrue(e.getDesc().endsWith("Bursar: in Bursar's words"), e.getDesc());
        });
    assertEquals(11000, refusal().getErrCode(), "no host was found");
  }

  @Test
  void theFirstThatLinkisWouldCheckIsNamed() {
    RMWarnException e =
        refusal(shortfall(QUEUE, "cpu", 1, 0, 1), shortfall(QUOTA, "cpu", 1, 0, 1), shortfall(HOST, "instances", 1, 0, 1), shortfall(HOST, "memory", 1, 0, 1));
    assertEquals(11001, e.getErrCode());
  }

  @Test
  void numbersAreInLinkissUnits() {
    assertTrue(
        refusal(shortfall(HOST, "cpu", 1000, 600, 8000))
            .getDesc()
            .contains("use CPU, requestResource : 2cores > availableResource : 1cores,  maxResource : 16cores.ECM Instance:ecm-1:9102"),
        "cores of the host are what the setting says");
    String queue = refusal(shortfall(QUEUE, "cpu", 4000, 1500, 8000)).getDesc();
    assertTrue(queue.contains("requestResource : 4cores > availableResource : 1cores,  maxResource : 8cores, queueName : root.etl."), queue);
    String memory = refusal(shortfall(HOST, "memory", 4L << 30, 1L << 30, 8L << 30)).getDesc();
    assertTrue(memory.contains("use Memory, requestResource : 4GB > availableResource : 1GB,  maxResource : 8GB."), memory);
  }

  @Test
  void aRefusalThatNamesNothingSaysSo() throws IOException {
    String nothing = refused("insufficient resources (waited): ", "");
    assertTrue(nothing.startsWith("errCode: 11000 "), nothing);
    assertTrue(nothing.contains(" Bursar: insufficient resources (waited): " + RefusalMapper.NOTHING_SHORT), nothing);
    String some = "insufficient resources (waited): host h: memory: requested 2, available 1, limit 8";
    String host = refused(some, ",\"shortfalls\":[" + shortfall(HOST, "memory", 2, 1, 8) + "]");
    assertTrue(host.contains(" Bursar: " + some) && !host.contains(RefusalMapper.NOTHING_SHORT), host);
    String any = refused("insufficient resources (waited): hosts: 2 in all", ",\"filters\":{\"total\":\"2\"}");
    assertTrue(any.contains("hosts: 2 in all") && !any.contains(RefusalMapper.NOTHING_SHORT), any);
  }

  private static String refused(String message, String more) throws IOException {
    try (FakeBursar bursar = new FakeBursar(); BursarClient client = bursar.client()) {
      bursar.refusal =
          FakeBursar.object(
              "{'code':'resource_exhausted','message':'" + message + "','details':[{'type':'bursar.v1.InsufficientResources','debug':"
                  + "{'reason':'waited','verdict':'VERDICT_NOT_NOW'" + more + "}}]}");
      BursarException e =
          assertThrows(
              BursarException.class, () -> client.allocate(AllocateRequest.builder().resource(Resource.EMPTY).build()));
      return new RefusalMapper(500).refusal("ecm-1:9102", e.refusal().get()).getMessage();
    }
  }
}
