package io.github.bursar.linkis.mapping;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.bursar.linkis.Settings;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.linkis.manager.label.entity.Label;
import org.apache.linkis.manager.label.entity.TenantLabel;
import org.apache.linkis.manager.label.entity.cluster.ClusterLabel;
import org.apache.linkis.manager.label.entity.engine.EngineTypeLabel;
import org.apache.linkis.manager.label.entity.engine.UserCreatorLabel;
import org.junit.jupiter.api.Test;

class LabelMapperTest {
  private static final LabelMapper mapper =
      new LabelMapper(
          Settings.of(Map.of("labels.extra", "cluster=prod,user=root,system=other,tenant", "host.map", "ecm-1=host-a,ecm-2:9102=host-b,::1=host-c")));

  private static List<Label<?>> engine() {
    UserCreatorLabel u = new UserCreatorLabel();
    u.setUser("alice");
    u.setCreator("IDE");
    EngineTypeLabel e = new EngineTypeLabel();
    e.setEngineType("spark");
    e.setVersion("3.3");
    return new ArrayList<>(List.of(u, e));
  }

  @Test
  void anEnginesLabels() {
    List<Label<?>> labels = engine();
    TenantLabel t = new TenantLabel();
    t.setTenant("research");
    labels.add(t);
    labels.add(null);
    assertEquals(
        Map.of("system", "linkis", "cluster", "prod", "user", "alice", "creator", "IDE", "engineType", "spark", "engineVersion", "3.3", "tenant", "research"),
        mapper.labels(labels));
  }

  @Test
  void anEngineWithoutATypeIsRefused() {
    List<Label<?>> labels = engine();
    labels.remove(1);
    IllegalArgumentException e = assertThrows(IllegalArgumentException.class, () -> mapper.labels(labels));
    assertTrue(e.getMessage().contains("engineType"), e.getMessage());
  }

  @Test
  void hostsOfEcms() {
    assertEquals("host-a", mapper.host("ecm-1:9102"));
    assertEquals("host-b", mapper.host("ecm-2:9102"));
    assertEquals("ecm-2", mapper.host("ecm-2:9103"));
    assertEquals("10.0.0.1", mapper.host("10.0.0.1:9102"));
    assertEquals("host-c", mapper.host("[::1]:9102"));
    assertThrows(IllegalArgumentException.class, () -> mapper.host((org.apache.linkis.manager.label.entity.em.EMInstanceLabel) null));
  }

  @Test
  void theClusterOfAQueue() {
    assertEquals("", LabelMapper.yarnCluster(engine()));
    ClusterLabel c = new ClusterLabel();
    c.setClusterType("Yarn");
    c.setClusterName("blue");
    assertEquals("blue", LabelMapper.yarnCluster(List.of(c)));
    c.setClusterName("default");
    assertEquals("", LabelMapper.yarnCluster(List.of(c)));
  }
}
