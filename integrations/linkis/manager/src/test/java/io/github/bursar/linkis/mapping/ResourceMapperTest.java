package io.github.bursar.linkis.mapping;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.bursar.client.ExternalResource;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Supplier;
import org.apache.linkis.manager.common.entity.resource.CPUResource;
import org.apache.linkis.manager.common.entity.resource.DriverAndKubernetesResource;
import org.apache.linkis.manager.common.entity.resource.DriverAndYarnResource;
import org.apache.linkis.manager.common.entity.resource.InstanceResource;
import org.apache.linkis.manager.common.entity.resource.KubernetesResource;
import org.apache.linkis.manager.common.entity.resource.LoadInstanceResource;
import org.apache.linkis.manager.common.entity.resource.LoadResource;
import org.apache.linkis.manager.common.entity.resource.MemoryResource;
import org.apache.linkis.manager.common.entity.resource.Resource;
import org.apache.linkis.manager.common.entity.resource.ResourceType;
import org.apache.linkis.manager.common.entity.resource.SpecialResource;
import org.apache.linkis.manager.common.entity.resource.YarnResource;
import org.apache.linkis.manager.common.utils.ResourceUtils;
import org.junit.jupiter.api.Test;

class ResourceMapperTest {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final long GIB = 1L << 30;

  /** Quantities of all sizes, with the ends and "unlimited". */
  private static final class Numbers {
    final Random random;

    Numbers(long seed) {
      random = new Random(seed);
    }

    long memory() {
      switch (random.nextInt(6)) {
        case 0:
          return 0;
        case 1:
          return Long.MAX_VALUE;
        case 2:
          return io.github.bursar.client.Resource.MAX_QUANTITY;
        default:
          return random.nextLong() >>> (11 + random.nextInt(50));
      }
    }

    int count() {
      switch (random.nextInt(6)) {
        case 0:
          return 0;
        case 1:
          return Integer.MAX_VALUE;
        case 2:
          return Integer.MAX_VALUE - 1;
        default:
          return random.nextInt() >>> (1 + random.nextInt(30));
      }
    }

    String name() {
      return List.of("default", "root.etl", "队列", "a b").get(random.nextInt(4));
    }

    LoadInstanceResource load() {
      return new LoadInstanceResource(memory(), count(), count());
    }

    YarnResource yarn() {
      return new YarnResource(memory(), count(), count(), name(), random.nextBoolean() ? "" : "application_1_" + random.nextInt(99));
    }

    KubernetesResource kubernetes() {
      return new KubernetesResource(memory(), memory(), name());
    }

    Resource of(ResourceType type) {
      switch (type) {
        case Memory:
          return new MemoryResource(memory());
        case CPU:
          return new CPUResource(count());
        case Instance:
          return new InstanceResource(count());
        case LoadInstance:
          return load();
        case Yarn:
          return yarn();
        case DriverAndYarn:
          return new DriverAndYarnResource(load(), yarn());
        case Kubernetes:
          return kubernetes();
        case DriverAndKubernetes:
          return new DriverAndKubernetesResource(load(), kubernetes());
        case Special:
          Map<String, Object> m = new LinkedHashMap<>();
          for (int i = random.nextInt(4); i > 0; i--) {
            m.put("gpu" + i, (long) random.nextInt(100));
          }
          return new SpecialResource(m);
        default:
          return new LoadResource(memory(), count());
      }
    }
  }

  private static String json(Resource r) {
    return ResourceUtils.serializeResource(r);
  }

  private static JsonNode tree(Resource r) throws JsonProcessingException {
    return JSON.readTree(json(r));
  }

  /** What Linkis shows of it says what it was; what asks for nothing of a queue is not told. */
  @Test
  void aRequestInBursarsWordsIsTheSameInLinkiss() throws JsonProcessingException {
    int compared = 0;
    for (int seed = 0; seed < 5_000; seed++) {
      Numbers n = new Numbers(seed);
      ResourceMapper mapper = new ResourceMapper(List.of(1, 250, 1000, 1_000_000).get(seed % 4));
      for (ResourceType type : ResourceType.values()) {
        Resource r = n.of(type);
        io.github.bursar.client.Resource asked;
        try {
          asked = mapper.request(r);
        } catch (IllegalArgumentException e) {
          assertTrue(e.getMessage().contains("unlimited"), e.getMessage());
          continue;
        }
        Resource back = mapper.limitToLinkis(asked, type);
        assertEquals(r.getClass(), back.getClass());
        if (!json(r).contains(":0") && ResourceMapper.applicationIds(r).isEmpty()) {
          assertEquals(tree(r), tree(back), "seed " + seed);
          compared++;
        }
      }
    }
    assertTrue(compared > 1000, compared + " were compared");
  }

  @Test
  void whatIsNotSetIsUnlimited() {
    for (ResourceType type : ResourceType.values()) {
      if (type != ResourceType.Special) {
        String shown = json(new ResourceMapper(1000).limitToLinkis(io.github.bursar.client.Resource.EMPTY, type));
        assertTrue(shown.contains(Long.toString(Long.MAX_VALUE)) || shown.contains(Integer.toString(Integer.MAX_VALUE)), type + ": " + shown);
      }
    }
  }

  @Test
  void aRequestIsExactOrRefused() {
    ResourceMapper mapper = new ResourceMapper(500);
    for (int seed = 0; seed < 5_000; seed++) {
      Numbers n = new Numbers(seed);
      LoadInstanceResource r = n.load();
      boolean possible = r.getMemory() != Long.MAX_VALUE && r.getCores() != Integer.MAX_VALUE && r.getInstances() != Integer.MAX_VALUE;
      if (possible) {
        io.github.bursar.client.Resource asked = mapper.request(r);
        assertEquals(r.getMemory(), asked.memoryBytes().getAsLong());
        assertEquals(500L * r.getCores(), asked.cpuMillis().getAsLong());
        assertEquals(Math.max(1, r.getInstances()), asked.instances().orElse(1));
      } else {
        assertThrows(IllegalArgumentException.class, () -> mapper.request(r));
      }
    }
  }

  @Test
  void partsInQueues() {
    ResourceMapper mapper = new ResourceMapper(500);
    DriverAndYarnResource r =
        new DriverAndYarnResource(new LoadInstanceResource(GIB, 2, 1), new YarnResource(8 * GIB, 4, 2, "root.etl"));
    io.github.bursar.client.Resource asked = mapper.request(r, "prod");
    assertEquals(1000, asked.cpuMillis().getAsLong(), "a core of the host is what the setting says");
    ExternalResource part = asked.external().get(0);
    assertEquals("yarn", part.kind());
    assertEquals("prod", part.cluster());
    assertEquals("root.etl", part.path());
    assertEquals(4000, part.amount().cpuMillis().getAsLong(), "a vcore is always 1000");
    assertEquals(2, part.amount().instances().getAsLong());

    DriverAndYarnResource none = new DriverAndYarnResource(new LoadInstanceResource(GIB, 2, 1), new YarnResource(0, 0, 0, "default"));
    assertTrue(mapper.request(none).external().isEmpty(), "who asks nothing of a queue needs none");

    DriverAndKubernetesResource k =
        new DriverAndKubernetesResource(new LoadInstanceResource(0, 0, 0), new KubernetesResource(GIB, 1500, "spark"));
    ExternalResource pods = mapper.request(k).external().get(0);
    assertEquals("kubernetes", pods.kind());
    assertEquals("spark", pods.path());
    assertEquals(1500, pods.amount().cpuMillis().getAsLong());
  }

  @Test
  void whatCannotBeAskedForIsNamed() {
    ResourceMapper mapper = new ResourceMapper(1000);
    Map<String, Supplier<Resource>> wrong = new LinkedHashMap<>();
    wrong.put("memory is -1", () -> new MemoryResource(-1));
    wrong.put("cores is -3", () -> new CPUResource(-3));
    wrong.put("memory is unlimited", () -> new MemoryResource());
    wrong.put("memory is 9007199254740992", () -> new LoadInstanceResource(1L << 53, 1, 1));
    wrong.put("queueName: it is empty", () -> new YarnResource(1, 1, 1, ""));
    wrong.put("yarnResource: it is missing", () -> new DriverAndYarnResource(new LoadInstanceResource(1, 1, 1), null));
    wrong.put("loadInstanceResource: it is missing", () -> new DriverAndYarnResource(null, new YarnResource(1, 1, 1, "a")));
    wrong.put("resources[gpu] is 1.5", () -> new SpecialResource(Map.of("gpu", 1.5)));
    wrong.put("resources[gpu] is many", () -> new SpecialResource(Map.of("gpu", "many")));
    wrong.put("resources[a b]", () -> new SpecialResource(Map.of("a b", 1)));
    wrong.put("resource: there is none", () -> null);
    wrong.forEach(
        (message, r) -> {
          IllegalArgumentException e = assertThrows(IllegalArgumentException.class, () -> mapper.request(r.get()), message);
          assertTrue(e.getMessage().startsWith(message), e.getMessage());
        });
  }

  @Test
  void halfCoresAreRoundedDown() {
    ResourceMapper mapper = new ResourceMapper(1000);
    io.github.bursar.client.Resource r = io.github.bursar.client.Resource.builder().cpuMillis(2500).build();
    assertEquals(2, ((CPUResource) mapper.limitToLinkis(r, ResourceType.CPU)).getCores());
    io.github.bursar.client.Resource huge =
        io.github.bursar.client.Resource.builder().cpuMillis(io.github.bursar.client.Resource.MAX_QUANTITY).build();
    assertEquals(Integer.MAX_VALUE, ((CPUResource) new ResourceMapper(1).limitToLinkis(huge, ResourceType.CPU)).getCores());
  }
}
