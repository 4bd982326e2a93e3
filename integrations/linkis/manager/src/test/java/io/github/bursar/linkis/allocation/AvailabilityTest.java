package io.github.bursar.linkis.allocation;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.bursar.client.AllocateRequest;
import io.github.bursar.client.BursarClient;
import io.github.bursar.client.Explanation;
import io.github.bursar.client.Resource;
import io.github.bursar.linkis.FakeBursar;
import io.github.bursar.linkis.mapping.ResourceMapper;
import java.io.IOException;
import org.apache.linkis.manager.am.vo.CanCreateECRes;
import org.apache.linkis.manager.common.entity.resource.ResourceType;
import org.junit.jupiter.api.Test;

class AvailabilityTest {
  private static final String QUEUE =
      "{'name':{'kind':'ACCOUNT_KIND_QUEUE','labels':{'kind':'yarn','cluster':'c','path':'root.etl'}},'available':{'memoryBytes':'700','cpuMillis':'3000'}}";

  private static String quota(String user, long memory) {
    return "{'name':{'kind':'ACCOUNT_KIND_QUOTA','labels':{'user':'" + user + "'}},'available':{'memoryBytes':'" + memory + "'}}";
  }

  private static CanCreateECRes shown(String... accounts) throws IOException {
    try (FakeBursar bursar = new FakeBursar();
        BursarClient client = bursar.client()) {
      bursar.explanation = FakeBursar.object("{'verdict':'VERDICT_FITS','accounts':[" + String.join(",", accounts) + "]}");
      Explanation e = client.explain(AllocateRequest.builder().resource(Resource.EMPTY).build());
      CanCreateECRes answer = new CanCreateECRes();
      Availability.show(answer, e.accounts(), new ResourceMapper(1000), ResourceType.DriverAndYarn);
      return answer;
    }
  }

  @Test
  void theLeastOfSeveralQuotasIsLeft() throws IOException {
    for (String[] order : new String[][] {{quota("a", 100), quota("*", 900)}, {quota("*", 900), quota("a", 100)}}) {
      String label = shown(order).getLabelResource();
      assertTrue(label.contains("\"memory\":100"), label);
    }
  }

  @Test
  void aUserWithoutALimitInAQueueHasWhatTheQueueHas() throws IOException {
    CanCreateECRes answer = shown(QUEUE, quota("a", 100));
    assertTrue(answer.getLabelResource().contains("\"queueMemory\":700"), answer.getLabelResource());
    assertTrue(answer.getLabelResource().contains("\"queueCores\":3"), answer.getLabelResource());
    assertTrue(answer.getYarnResource().contains("\"queueMemory\":700"), answer.getYarnResource());
  }
}
