package io.github.bursar.linkis.allocation;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.github.bursar.client.ExternalResource;
import io.github.bursar.client.Resource;
import java.util.List;
import java.util.Optional;
import org.apache.linkis.manager.common.entity.resource.DriverAndYarnResource;
import org.apache.linkis.manager.common.entity.resource.LoadInstanceResource;
import org.apache.linkis.manager.common.entity.resource.YarnResource;
import org.junit.jupiter.api.Test;

class EntitlementTest {
  private static final long GIB = 1L << 30;
  private static final Resource PART = Resource.builder().memoryBytes(16 * GIB).cpuMillis(8000).instances(4).custom("am-memory", GIB).build();
  private static final Resource GRANTED =
      Resource.builder().memoryBytes(GIB).cpuMillis(1000).instances(1).external(ExternalResource.of("yarn", "prod", "root.a.b", PART)).build();

  private static Optional<Resource> reports(long memory, int cores, int instances) {
    return Entitlement.smaller(
        GRANTED, new DriverAndYarnResource(new LoadInstanceResource(1, 1, 1), new YarnResource(memory, cores, instances, "b", "application_1_1")));
  }

  @Test
  void fewerExecutorsAreASmallerPart() {
    Resource r = reports(8 * GIB, 4, 2).get();
    ExternalResource part = r.external().get(0);
    assertEquals("root.a.b", part.path());
    assertEquals("prod", part.cluster());
    assertEquals(8 * GIB, part.amount().memoryBytes().getAsLong());
    assertEquals(4000, part.amount().cpuMillis().getAsLong());
    assertEquals(2, part.amount().instances().getAsLong());
    assertEquals(GIB, part.amount().custom().get("am-memory"));
    assertEquals(GIB, r.memoryBytes().getAsLong(), "what is on the host stays: 1 byte is no entitlement");
  }

  @Test
  void asManyOrMoreOrNothingIsAsGranted() {
    assertEquals(Optional.empty(), reports(16 * GIB, 8, 4));
    assertEquals(Optional.empty(), reports(99 * GIB, 99, 99));
    assertEquals(Optional.empty(), reports(0, 0, 0));
    assertEquals(Optional.empty(), Entitlement.smaller(GRANTED, new LoadInstanceResource(1, 1, 1)));
    assertEquals(Optional.empty(), Entitlement.smaller(GRANTED, null));
    assertEquals(16 * GIB, reports(99 * GIB, 4, 0).get().external().get(0).amount().memoryBytes().getAsLong(), "never more");
  }

  @Test
  void linkissRowHasTheApplication() {
    DriverAndYarnResource held = new DriverAndYarnResource(new LoadInstanceResource(1, 1, 1), new YarnResource(1, 1, 1, "b"));
    DriverAndYarnResource named = (DriverAndYarnResource) Entitlement.withApplication(held, List.of("application_1_1"));
    assertEquals("application_1_1", named.getYarnResource().getApplicationId());
    assertEquals(held, Entitlement.withApplication(held, List.of()));
  }
}
